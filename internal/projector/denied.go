package projector

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Denied adds to an error of the brokers about permissions which operations on
// what are missing.
func Denied(err error, operations, on string) error {
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed) {
		return fmt.Errorf("the Kafka user lacks %s on %s (docs/operations.md lists the ACLs): %w", operations, on, err)
	}
	return err
}
