package clickhouse

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"
	"text/template"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// versions is goose's table of applied migrations.
const versions = "schema_versions"

// exposed are the tables and views of the live generation that readers see
// under the same name in the store's own database.
var exposed = []string{
	"evidence", "jobs", "timeline", "failures", "attempt_ids", "quarantine", "batches", "positions",
	"v_jobs", "v_attempts", "v_operations", "v_rates_1m", "v_failures", "v_duplicates", "v_rejected", "v_positions",
}

// Applied is a migration that Migrate ran.
type Applied struct {
	Database string `json:"database"`
	File     string `json:"file"`
}

// Migrate brings all three databases of the store to the newest schema and
// makes generation a live when none is. It may be called again, and by several
// processes at once. opts says how to reach the server; its database is
// ignored. It needs the right to create databases and tables only when
// something is missing.
func Migrate(ctx context.Context, opts *driver.Options, layout Layout) ([]Applied, error) {
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	var applied []Applied
	for _, one := range []struct{ database, dir string }{
		{layout.Database, "migrations/control"},
		{layout.Generation(GenerationA), "migrations/generation"},
		{layout.Generation(GenerationB), "migrations/generation"},
	} {
		files, err := migrate(ctx, opts, layout, one.database, one.dir)
		for _, f := range files {
			applied = append(applied, Applied{one.database, f})
		}
		if err != nil {
			return applied, fmt.Errorf("migrating database %s: %w", one.database, err)
		}
	}
	conn, err := driver.Open(on(opts, layout.Database))
	if err != nil {
		return applied, fmt.Errorf("opening a ClickHouse client: %w", err)
	}
	defer conn.Close()
	live, err := Live(ctx, conn, layout)
	switch {
	case errors.Is(err, ErrNoGeneration):
		live = layout.Generation(GenerationA)
		if err := SetLive(ctx, conn, layout, live, "first migration"); err != nil {
			return applied, err
		}
	case err != nil:
		return applied, err
	case len(applied) > 0:
		if err := expose(ctx, conn, layout, live); err != nil {
			return applied, err
		}
	}
	return applied, nil
}

func migrate(ctx context.Context, opts *driver.Options, layout Layout, database, dir string) (files []string, err error) {
	rendered, err := Render(layout, dir)
	if err != nil {
		return nil, err
	}
	if err := createDatabase(ctx, opts, layout, database); err != nil {
		return nil, err
	}
	db := driver.OpenDB(on(opts, database))
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectClickHouse, db, rendered, goose.WithTableName(versions), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	pending, err := provider.HasPending(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the schema version: %w", err)
	}
	if !pending {
		return nil, nil
	}
	results, err := provider.Up(ctx)
	for _, r := range results {
		if r.Error == nil {
			files = append(files, r.Source.Path)
		}
	}
	return files, err
}

func createDatabase(ctx context.Context, opts *driver.Options, layout Layout, database string) error {
	conn, err := driver.Open(on(opts, ""))
	if err != nil {
		return fmt.Errorf("opening a ClickHouse client: %w", err)
	}
	defer conn.Close()
	var n uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.databases WHERE name = ?", database).Scan(&n); err != nil {
		return fmt.Errorf("looking for the database: %w", err)
	}
	if n > 0 {
		return nil
	}
	if err := conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+database+" "+layout.OnCluster()); err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	return nil
}

// on returns opts for another database.
func on(opts *driver.Options, database string) *driver.Options {
	o := *opts
	o.Auth.Database = database
	return &o
}

// Render returns the migrations of dir, "migrations/control" or
// "migrations/generation", as they are run under layout.
func Render(layout Layout, dir string) (fs.FS, error) {
	sub, err := fs.Sub(migrations, dir)
	if err != nil {
		return nil, err
	}
	out := fstest.MapFS{}
	if err := render(layout, sub, out); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	}
	if more := derivedMigrations(dir); more != nil {
		if err := render(layout, more, out); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", dir, err)
		}
	}
	return out, nil
}

// render adds the files of from to out as they are run under layout.
func render(layout Layout, from fs.FS, out fstest.MapFS) error {
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		t, err := template.New(path).Option("missingkey=error").Parse(string(raw))
		if err != nil {
			return err
		}
		var b strings.Builder
		if err := t.Execute(&b, layout); err != nil {
			return err
		}
		out[path] = &fstest.MapFile{Data: []byte(b.String())}
		return nil
	})
}
