package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// onBoth runs a test on an in-process broker and on the real one. name is a
// prefix for topics and groups that nobody else uses.
func onBoth(t *testing.T, test func(t *testing.T, environ []string, cl *kgo.Client, name string)) {
	t.Run("fake", func(t *testing.T) {
		environ, cl, _ := fakeKafka(t)
		test(t, environ, cl, "t")
	})
	t.Run("real", func(t *testing.T) {
		environ, cl := clientFor(t, strings.Join(stacktest.ForTest(t).Brokers, ","))
		test(t, environ, cl, "t"+strings.ReplaceAll(uuid.NewString()[:18], "-", ""))
	})
}

// fakeKafka returns the environment and a client for an in-process broker.
func fakeKafka(t *testing.T, opts ...kfake.Opt) (environ []string, cl *kgo.Client, fake *kfake.Cluster) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	environ, cl = clientFor(t, strings.Join(c.ListenAddrs(), ","))
	return environ, cl, c
}

func clientFor(t *testing.T, brokers string) ([]string, *kgo.Client) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...), kgo.MetadataMinAge(50*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return []string{"KAFKA_BROKERS=" + brokers}, cl
}

// must runs the command line and fails the test unless it exits with code.
func must(t *testing.T, code int, environ []string, args ...string) (stdout, stderr string) {
	t.Helper()
	return mustWith(t, code, environ, "", args...)
}

// mustWith is must with standard input.
func mustWith(t *testing.T, code int, environ []string, stdin string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	got := run(t.Context(), args, &Globals{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Environ: environ})
	if got != code {
		t.Fatalf("%s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// bounded returns a context that ends with the test, at the latest after d.
func bounded(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func boundedBy(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}
