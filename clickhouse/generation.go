package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ErrNoGeneration says that no generation is live: the store was never
// migrated.
var ErrNoGeneration = errors.New("no generation is live: run jobtrail migrate")

// Live returns the database of the live generation, or ErrNoGeneration.
func Live(ctx context.Context, conn driver.Conn, layout Layout) (string, error) {
	var live string
	if err := conn.QueryRow(ctx, "SELECT argMax(database, seq) FROM "+layout.Database+".generation").Scan(&live); err != nil {
		return "", fmt.Errorf("reading the live generation: %w", err)
	}
	if live == "" {
		return "", ErrNoGeneration
	}
	return live, nil
}

// SetLive makes the generation in database live: it turns the pointer, which
// projectors follow, and the views, which readers use. reason says why, in
// words.
func SetLive(ctx context.Context, conn driver.Conn, layout Layout, database, reason string) error {
	if database != layout.Generation(GenerationA) && database != layout.Generation(GenerationB) {
		return fmt.Errorf("%s is no generation of %s", database, layout.Database)
	}
	if err := expose(ctx, conn, layout, database); err != nil {
		return err
	}
	table := layout.Database + ".generation"
	err := conn.Exec(ctx, "INSERT INTO "+table+" (seq, database, switched_at, reason) SELECT max(seq) + 1, ?, now64(3), ? FROM "+table, database, reason)
	if err != nil {
		return fmt.Errorf("turning the pointer to %s: %w", database, err)
	}
	return nil
}

// expose turns the views of the store's own database to a generation. They
// carry the comments of what they show.
func expose(ctx context.Context, conn driver.Conn, layout Layout, database string) error {
	for _, name := range exposed {
		columns, err := describe(ctx, conn, database, name)
		if err != nil {
			return err
		}
		statement := fmt.Sprintf("CREATE OR REPLACE VIEW %s.%s %s (%s) AS SELECT * FROM %s.%s", layout.Database, name, layout.OnCluster(), columns, database, name)
		if err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("turning view %s to %s: %w", name, database, err)
		}
	}
	return nil
}

// describe returns the column list of a view that shows a table or a view.
func describe(ctx context.Context, conn driver.Conn, database, name string) (string, error) {
	rows, err := conn.Query(ctx, "SELECT name, type, comment FROM system.columns WHERE database = ? AND table = ? ORDER BY position", database, name)
	if err != nil {
		return "", fmt.Errorf("describing %s.%s: %w", database, name, err)
	}
	defer rows.Close()
	var columns []string
	for rows.Next() {
		var column, typ, comment string
		if err := rows.Scan(&column, &typ, &comment); err != nil {
			return "", fmt.Errorf("describing %s.%s: %w", database, name, err)
		}
		text := "`" + column + "` " + typ
		if comment != "" {
			text += " COMMENT '" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(comment) + "'"
		}
		columns = append(columns, text)
	}
	if err := rows.Err(); err != nil {
		return "", fmt.Errorf("describing %s.%s: %w", database, name, err)
	}
	return strings.Join(columns, ", "), nil
}
