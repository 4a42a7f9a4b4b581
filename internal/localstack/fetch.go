package localstack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Pinned versions, as pinned/pom.xml and pinned/package-lock.json have them.
const (
	kafkaVersion      = "4.3.1"
	clickHouseVersion = "26.7.3"
	libraryPackage    = "@chdb/lib-linux-x64-gnu"
	// clickHouseServerVersion is what the server in the library calls itself,
	// without its build.
	clickHouseServerVersion = "26.7.2"
)

//go:embed pinned
var pinned embed.FS

// A download is one thing in the cache. Its folder's name holds a digest of
// the pinned files it is made from, so that another version is another folder
// and a folder, once there, is complete and never changes.
type download struct {
	name  string   // what people call it, and the start of the folder's name
	says  string   // how it is fetched and how much that is
	files []string // below pinned
	fetch func(ctx context.Context, dir string) error
	check func(dir string) error
}

var kafkaJars = download{
	name:  "kafka-" + kafkaVersion,
	says:  "with Maven, 54 MB",
	files: []string{"pom.xml", "jars.sha256"},
	fetch: func(ctx context.Context, dir string) error {
		mvn, err := findMaven()
		if err != nil {
			return err
		}
		return runTool(ctx, dir, mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, "lib"))
	},
	check: checkJars,
}

var clickHouseLibrary = download{
	name:  "clickhouse-" + clickHouseVersion,
	says:  "with npm, 150 MB to fetch and 566 MB on disk",
	files: []string{"package.json", "package-lock.json"},
	fetch: func(ctx context.Context, dir string) error {
		npm, err := findNPM()
		if err != nil {
			return err
		}
		return runTool(ctx, dir, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
	},
	check: func(dir string) error {
		_, err := os.Stat(libraryPath(dir))
		return err
	},
}

func libraryPath(dir string) string {
	return filepath.Join(dir, "node_modules", filepath.FromSlash(libraryPackage), "libchdb.so")
}

// ensure returns the folder of d below cache, fetching it first if need be.
// Processes that want it at the same time fetch it once; a fetch that was cut
// short leaves nothing that a later one would take for complete.
func (d download) ensure(ctx context.Context, cache string, progress io.Writer) (string, error) {
	dir := filepath.Join(cache, d.name+"-"+d.digest())
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(cache, d.name+".lock"), func() {
		fmt.Fprintf(progress, "Waiting for another process that fetches %s.\n", d.name)
	})
	if err != nil {
		return "", fmt.Errorf("locking the cache: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// What is left of others was cut short: their owner would hold the lock. A
	// tool of theirs may still write to it, so each fetch has a folder of its own.
	stale, err := filepath.Glob(dir + ".partial-*")
	if err != nil {
		return "", fmt.Errorf("looking for partial fetches: %w", err)
	}
	for _, left := range stale {
		_ = os.RemoveAll(left)
	}
	partial, err := os.MkdirTemp(cache, filepath.Base(dir)+".partial-*")
	if err != nil {
		return "", fmt.Errorf("preparing to fetch %s: %w", d.name, err)
	}
	defer os.RemoveAll(partial) // moved away by then if all went well
	if err := d.writePinned(partial); err != nil {
		return "", fmt.Errorf("preparing to fetch %s: %w", d.name, err)
	}
	fmt.Fprintf(progress, "Fetching %s %s, into %s (once).\n", d.name, d.says, cache)
	began := time.Now()
	if err := d.fetch(ctx, partial); err != nil {
		return "", fmt.Errorf("fetching %s: %w", d.name, err)
	}
	if err := d.check(partial); err != nil {
		return "", fmt.Errorf("checking what was fetched for %s: %w", d.name, err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", fmt.Errorf("moving %s into place: %w", d.name, err)
	}
	fmt.Fprintf(progress, "Fetched %s in %s.\n", d.name, time.Since(began).Round(time.Second))
	return dir, nil
}

func (d download) digest() string {
	h := sha256.New()
	for _, name := range d.files {
		h.Write(pinnedFile(name))
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

func (d download) writePinned(dir string) error {
	for _, name := range d.files {
		if err := os.WriteFile(filepath.Join(dir, name), pinnedFile(name), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pinnedFile returns an embedded file; one that is missing is a mistake in
// this package that every test finds.
func pinnedFile(name string) []byte {
	text, err := pinned.ReadFile("pinned/" + name)
	if err != nil {
		panic(err)
	}
	return text
}

// checkJars holds dir/lib against the pinned digests: nothing missing, changed
// or added.
func checkJars(dir string) error {
	lib := filepath.Join(dir, "lib")
	want := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(pinnedFile("jars.sha256")))
	for lines.Scan() {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		want[name] = sum
	}
	var problems []error
	for name, sum := range want {
		text, err := os.ReadFile(filepath.Join(lib, name))
		if errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("%s is missing", name))
			continue
		}
		if err != nil {
			return err
		}
		if got := sha256.Sum256(text); hex.EncodeToString(got[:]) != sum {
			problems = append(problems, fmt.Errorf("%s differs from its pinned SHA-256", name))
		}
	}
	found, err := os.ReadDir(lib)
	if err != nil {
		return err
	}
	for _, entry := range found {
		if _, ok := want[entry.Name()]; !ok {
			problems = append(problems, fmt.Errorf("%s is not among the pinned jars", entry.Name()))
		}
	}
	return errors.Join(problems...)
}

// runTool runs a program to its end in dir. When ctx ends, the program and what
// it started are killed. An error carries the end of what it printed.
func runTool(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	killGroupOnCancel(cmd)
	cmd.WaitDelay = 5 * time.Second
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, lastLines(output, 20))
	}
	return nil
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
