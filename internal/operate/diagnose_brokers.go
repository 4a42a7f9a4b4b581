package operate

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// What workers demand of the brokers.
const (
	needMajor, needMinor = 4, 3
	upgrade              = "upgrade the brokers to Kafka 4.3 or later"
)

var neededFeatures = []struct {
	name  string
	level int16
	why   string
}{
	{"transaction.version", 2, "transactions are only safe with KIP-890 part 2"},
	{"group.version", 1, "the consumer group protocol of KIP-848 is needed"},
}

// brokers checks the brokers; false means that none answers.
func (d Diagnosis) brokers(ctx context.Context, adm *kadm.Client, r *report) bool {
	if err := d.Kafka.Ping(ctx); err != nil {
		r.add(Fail, "kafka", "", "start the brokers, or correct KAFKA_BROKERS and its TLS and SASL variables", "no broker answers: %s", r.clean.Error(err))
		return false
	}
	versions, err := adm.ApiVersions(ctx)
	if err != nil {
		r.unknown("kafka", "", err)
		return false
	}
	var names []string
	for _, v := range versions.Sorted() {
		about := "broker " + strconv.Itoa(int(v.NodeID))
		if v.Err != nil {
			r.add(Fail, "kafka", about, "start the broker, or let this machine reach it", "does not answer: %s", r.clean.Error(v.Err))
			continue
		}
		names = append(names, strconv.Itoa(int(v.NodeID)))
		checkVersion(r, about, v.VersionGuess())
		have := map[string]int16{}
		for _, f := range v.Raw().FinalizedFeatures {
			have[f.Name] = f.MaxVersionLevel
		}
		for _, f := range neededFeatures {
			if have[f.name] < f.level {
				r.add(Fail, "features", about, fmt.Sprintf("kafka-features.sh --bootstrap-server … upgrade --feature %s=%d", f.name, f.level),
					"%s is at level %d, %d is needed: %s", f.name, have[f.name], f.level, f.why)
			}
		}
	}
	if len(names) == 0 {
		r.add(Fail, "kafka", "", "wait until the brokers have started, or look at their logs", "no broker of the cluster is available: none has registered, or all are fenced")
		return false
	}
	if !slices.ContainsFunc(r.findings, func(f Finding) bool { return f.Check == "features" }) {
		r.add(OK, "features", "", "", "transaction.version 2 and group.version 1 are on")
	}
	r.add(OK, "kafka", "", "", "answers: broker %s", strings.Join(names, ", "))
	d.settings(ctx, adm, r)
	return true
}

var versionPattern = regexp.MustCompile(`v(\d+)\.(\d+)`)

func checkVersion(r *report, about, guess string) {
	m := versionPattern.FindStringSubmatch(guess)
	if m == nil {
		r.add(Warn, "version", about, upgrade, "the version is not known: %s", guess)
		return
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < needMajor || major == needMajor && minor < needMinor {
		r.add(Fail, "version", about, upgrade, "speaks like Kafka %s, 4.3 is needed", guess)
		return
	}
	r.add(OK, "version", about, "", "speaks like Kafka %s", guess)
}

// longSession is the session time above which a lost worker costs minutes.
const longSession = 10 * time.Second

// settings checks the brokers' settings that a group depends on.
func (d Diagnosis) settings(ctx context.Context, adm *kadm.Client, r *report) {
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil {
		r.unknown("session", "", err)
		return
	}
	configs, err := adm.DescribeBrokerConfigs(ctx, meta.Brokers.NodeIDs()...)
	if err != nil {
		r.unknown("session", "", denied(err, "DescribeConfigs", "the cluster"))
		return
	}
	for _, broker := range configs {
		about := "broker " + broker.Name
		if broker.Err != nil {
			r.unknown("session", about, denied(broker.Err, "DescribeConfigs", "the cluster"))
			continue
		}
		values := map[string]string{}
		for _, c := range broker.Configs {
			values[c.Key] = c.MaybeValue()
		}
		ms := func(name string) time.Duration {
			n, _ := strconv.ParseInt(values[name], 10, 64)
			return time.Duration(n) * time.Millisecond
		}
		session, least, heartbeat := ms("group.consumer.session.timeout.ms"), ms("group.consumer.min.session.timeout.ms"), ms("group.consumer.heartbeat.interval.ms")
		switch {
		case session == 0:
			r.add(Warn, "session", about, upgrade, "group.consumer.session.timeout.ms is not set: how long a lost worker's jobs wait is not known")
		case session > longSession:
			r.add(Warn, "session", about, "set group.consumer.session.timeout.ms=3000, group.consumer.min.session.timeout.ms=3000 and group.consumer.heartbeat.interval.ms=500 on the brokers",
				"a lost worker is noticed after %s, until then its jobs wait (the least possible is %s, heartbeats every %s)", session, least, heartbeat)
		default:
			r.add(OK, "session", about, "", "a lost worker is noticed after %s (the least possible is %s, heartbeats every %s)", session, least, heartbeat)
		}
		if values["auto.create.topics.enable"] == "true" {
			r.add(Warn, "auto-create", about, "set auto.create.topics.enable=false", "a misspelt topic name makes a topic, whose jobs nobody runs")
		}
	}
}
