package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Features of the brokers that the ledger stands on, and the least levels.
var needed = []struct {
	name  string
	level int16
	why   string
}{
	{"transaction.version", 2, "transactions are only safe with KIP-890 part 2"},
	{"group.version", 1, "the consumer group protocol of KIP-848 is needed"},
}

// preflight checks brokers and topics, and learns what the ledger needs to know
// of them. A worker starts only when nothing would lose or misroute a record.
func (w *Worker) preflight(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := checkFeatures(ctx, w.control); err != nil {
		return err
	}
	if err := w.permitted(ctx); err != nil {
		return err
	}
	found, err := findTopics(ctx, w.admin, w.topo)
	if err != nil {
		return err
	}
	if err := w.unfit(found); err != nil {
		return err
	}
	w.l.topicIDs = make(map[string]uuid.UUID)
	w.l.maxBytes = make(map[string]int)
	for name, f := range found {
		w.l.topicIDs[name] = f.ID
		w.l.maxBytes[name], _ = strconv.Atoi(f.Configs["max.message.bytes"])
		w.maxBatch = max(w.maxBatch, w.l.maxBytes[name])
	}
	w.session, err = sessionTimeout(ctx, w.admin, w.control, w.cfg.Group)
	return err
}

// unfit says what is wrong with the topics, what is the same of several in one
// sentence; missing ones with the command that makes them.
func (w *Worker) unfit(found map[string]retrytopics.Found) error {
	problems := w.topo.Check(found)
	var missing []string
	partitions := found[w.topo.Evidence()].Partitions
	for _, p := range problems {
		if p.Setting == "existence" {
			missing = append(missing, p.Topic)
		}
	}
	for _, j := range w.topo.Jobs {
		partitions = max(partitions, found[j].Partitions)
	}
	var errs []error
	if len(missing) > 0 {
		of := strconv.Itoa(len(missing)) + " topics"
		if len(missing) <= 3 {
			of = strings.Join(missing, ", ")
		}
		errs = append(errs, fmt.Errorf("%s of group %s missing; make what is missing with: %s", of, w.cfg.Group, w.topo.ApplyCommand(partitions)))
	}
	problems = slices.DeleteFunc(problems, func(p retrytopics.Problem) bool { return p.Setting == "existence" })
	for _, line := range retrytopics.Summarise(problems) {
		errs = append(errs, fmt.Errorf("checking the topics of group %s: %s", w.cfg.Group, line))
	}
	return errors.Join(errs...)
}

func checkFeatures(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "jobtrail", "1"
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("asking the brokers for their features: %w", err)
	}
	have := make(map[string]int16)
	for _, f := range resp.FinalizedFeatures {
		have[f.Name] = f.MaxVersionLevel
	}
	var errs []error
	for _, n := range needed {
		if have[n.name] < n.level {
			errs = append(errs, fmt.Errorf("the brokers' feature %s is at level %d, at least %d is needed: %s (Kafka 4.3 or later; see kafka-features.sh)", n.name, have[n.name], n.level, n.why))
		}
	}
	return errors.Join(errs...)
}

// findTopics returns the topics of the topology that exist.
func findTopics(ctx context.Context, adm *kadm.Client, topo retrytopics.Topology) (map[string]retrytopics.Found, error) {
	var names []string
	for _, t := range topo.Topics(0) {
		names = append(names, t.Name)
	}
	details, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("asking the brokers for the topics: %w", err)
	}
	found := make(map[string]retrytopics.Found)
	var there []string
	for _, d := range details {
		if d.Err == nil {
			found[d.Topic] = retrytopics.Found{ID: uuid.UUID(d.ID), Partitions: len(d.Partitions), Configs: make(map[string]string)}
			there = append(there, d.Topic)
		}
	}
	if len(there) == 0 {
		return found, nil
	}
	configs, err := adm.DescribeTopicConfigs(ctx, there...)
	if err != nil {
		return nil, fmt.Errorf("asking the brokers for the topics' settings: %w", err)
	}
	for _, c := range configs {
		if c.Err != nil {
			return nil, fmt.Errorf("asking the brokers for the settings of topic %s: %w", c.Name, denied(c.Err, "DescribeConfigs", "topic "+c.Name))
		}
		for _, kv := range c.Configs {
			found[c.Name].Configs[kv.Key] = kv.MaybeValue()
		}
	}
	return found, nil
}

// defaultSession is Kafka's own session timeout of KIP-848 groups.
const defaultSession = 45 * time.Second

// sessionTimeout returns how long the brokers wait for a member of the group:
// the lease that handlers are started under.
func sessionTimeout(ctx context.Context, adm *kadm.Client, cl *kgo.Client, group string) (time.Duration, error) {
	session := defaultSession
	take := func(value string) {
		if ms, err := strconv.Atoi(value); err == nil && ms > 0 {
			session = time.Duration(ms) * time.Millisecond
		}
	}
	brokers, err := adm.DescribeBrokerConfigs(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking the brokers for their session timeout: %w", denied(err, "DescribeConfigs", "the cluster"))
	}
	for _, b := range brokers {
		// A lease that is longer than the brokers' would be no lease.
		if err := denied(b.Err, "DescribeConfigs", "the cluster"); err != nil {
			return 0, fmt.Errorf("asking the brokers for their session timeout: %w", err)
		}
		for _, kv := range b.Configs {
			if kv.Key == "group.consumer.session.timeout.ms" {
				take(kv.MaybeValue())
			}
		}
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	r.ConfigNames = []string{"consumer.session.timeout.ms"}
	req.Resources = append(req.Resources, r)
	if resp, err := req.RequestWith(ctx, cl); err == nil {
		for _, r := range resp.Resources {
			if err := kerr.ErrorForCode(r.ErrorCode); errors.Is(err, kerr.GroupAuthorizationFailed) {
				return 0, fmt.Errorf("asking the brokers for the group's session timeout: %w", denied(err, "DescribeConfigs", "group "+group))
			}
			for _, c := range r.Configs {
				if c.Name == "consumer.session.timeout.ms" && c.Value != nil && !strings.EqualFold(*c.Value, "0") {
					take(*c.Value)
				}
			}
		}
	}
	return session, nil
}
