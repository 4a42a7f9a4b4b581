package redact

import (
	"fmt"
	"strings"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/twmb/franz-go/pkg/kerr"
)

// kafkaError keeps the constant texts of a broker's error code.
func kafkaError(err error) (string, bool) {
	e, ok := err.(*kerr.Error)
	if !ok || e == nil {
		return "", false
	}
	return e.Message + ": " + e.Description, true
}

// clickHouseError keeps of a server's exception, as clickhouse-go has it, the
// code and what the message says before it shows a statement.
func clickHouseError(err error) (string, bool) {
	e, ok := err.(*clickhouse.Exception)
	if !ok || e == nil {
		return "", false
	}
	return fmt.Sprintf("code: %d, message: %s", e.Code, withoutStatement(e.Message)), true
}

// chError is clickHouseError for ch-go.
func chError(err error) (string, bool) {
	e, ok := err.(*ch.Exception)
	if !ok || e == nil {
		return "", false
	}
	return fmt.Sprintf("code: %d, message: %s", int(e.Code), withoutStatement(e.Message)), true
}

// statements are the words after which the server shows parts of a statement,
// which may hold values.
var statements = []string{": In scope ", " (in query", " (query: ", ": While executing ", ": while executing ", ". Stack trace:"}

func withoutStatement(message string) string {
	for _, words := range statements {
		message, _, _ = strings.Cut(message, words)
	}
	return message
}
