package localstack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fake is a download that fetches nothing real.
func fake(fetch func(ctx context.Context, dir string) error) download {
	return download{
		name: "thing-1", says: "from nowhere", files: []string{"package.json"}, fetch: fetch,
		check: func(dir string) error { _, err := os.Stat(filepath.Join(dir, "thing")); return err },
	}
}

func writeThing(dir string) error {
	return os.WriteFile(filepath.Join(dir, "thing"), []byte("thing"), 0o644)
}

func TestFetchHappensOnce(t *testing.T) {
	cache := t.TempDir()
	var fetched atomic.Int32
	release := make(chan struct{})
	d := fake(func(_ context.Context, dir string) error {
		fetched.Add(1)
		<-release
		return writeThing(dir)
	})
	const callers = 4
	var wg sync.WaitGroup
	dirs := make([]string, callers)
	waiting := make(chan struct{}, callers)
	for i := range callers {
		wg.Go(func() {
			progress := writerFunc(func(p []byte) {
				if strings.Contains(string(p), "Waiting for another process") {
					waiting <- struct{}{}
				}
			})
			var err error
			if dirs[i], err = d.ensure(t.Context(), cache, progress); err != nil {
				t.Error(err)
			}
		})
	}
	for range callers - 1 {
		<-waiting
	}
	close(release)
	wg.Wait()
	if n := fetched.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	for _, dir := range dirs {
		if dir != dirs[0] {
			t.Errorf("got %q", dirs)
		}
		if err := d.check(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestInterruptedFetchLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("interrupted")
	interrupted := fake(func(ctx context.Context, dir string) error {
		if err := writeThing(dir); err != nil {
			return err
		}
		time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
		return runTool(ctx, dir, "/bin/sh", "-c", "sleep 60 & wait")
	})
	began := time.Now()
	if _, err := interrupted.ensure(ctx, cache, io.Discard); !errors.Is(err, stop) {
		t.Fatalf("got %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the tool went on for %s", took)
	}
	// What a killed process leaves: nobody removed it.
	stale := filepath.Join(cache, "thing-1-"+interrupted.digest()+".partial-killed")
	if err := os.Mkdir(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeThing(stale); err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	dir, err := fake(func(_ context.Context, dir string) error { return writeThing(dir) }).ensure(t.Context(), cache, &progress)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(progress.String(), "Fetching thing-1 from nowhere") {
		t.Errorf("it was taken for fetched; progress: %s", &progress)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 || left[0] != dir { // and the lock
		t.Errorf("the cache holds %q", left)
	}
}

func TestJarsAreChecked(t *testing.T) {
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib")
	if err := os.Mkdir(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(pinnedFile("jars.sha256"))), "\n")
	if len(lines) < 80 {
		t.Fatalf("%d jars are pinned", len(lines))
	}
	_, first, _ := strings.Cut(lines[0], "  ")
	for name, text := range map[string]string{first: "changed", "stranger.jar": "added"} {
		if err := os.WriteFile(filepath.Join(lib, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := checkJars(dir)
	if err == nil {
		t.Fatal("no complaint")
	}
	for _, want := range []string{first + " differs from its pinned SHA-256", "kafka_2.13-4.3.1.jar is missing", "stranger.jar is not among the pinned jars"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestPinnedFilesHoldVersionsAndNoRegistry(t *testing.T) {
	for _, want := range []struct{ file, text string }{
		{"pom.xml", "<version>" + kafkaVersion + "</version>"},
		{"jars.sha256", "  kafka_2.13-" + kafkaVersion + ".jar"},
		{"package.json", `"` + libraryPackage + `": "` + clickHouseVersion},
		{"package-lock.json", `"version": "` + clickHouseVersion},
		{"package-lock.json", `"integrity": "sha512-`},
	} {
		if !bytes.Contains(pinnedFile(want.file), []byte(want.text)) {
			t.Errorf("%s does not hold %s", want.file, want.text)
		}
	}
	address := regexp.MustCompile(`https?://\S+`)
	for _, name := range []string{"pom.xml", "package.json", "package-lock.json"} {
		for _, found := range address.FindAllString(string(pinnedFile(name)), -1) {
			if !strings.HasPrefix(found, "http://maven.apache.org/POM/") { // the name of the format
				t.Errorf("%s names an address: %s", name, found)
			}
		}
	}
}

func TestJavaVersion(t *testing.T) {
	for _, tt := range []struct {
		output string
		want   int
	}{
		{"openjdk version \"17.0.15\" 2025-04-15", 17},
		{"java version \"1.8.0_392\"", 8},
		{"Picked up JAVA_TOOL_OPTIONS: -Dx=y\nopenjdk version \"21\" 2023-09-19", 21},
		{"openjdk version \"25-ea\"", 25},
		{"command failed", 0},
	} {
		got, err := javaVersion(tt.output)
		if got != tt.want || (err != nil) != (tt.want == 0) {
			t.Errorf("%q: got %d, %v; want %d", tt.output, got, err, tt.want)
		}
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
