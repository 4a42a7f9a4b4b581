package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

const (
	// overdueFor is how late a tier may be before it is a finding.
	overdueFor = time.Minute
	// hungAfter is how old an open transaction is that counts as hung. Workers'
	// transactions take milliseconds and are aborted after seconds.
	hungAfter = time.Minute
	// expiresSoon is how long before retention deletes a held job it is a finding.
	expiresSoon = 14 * 24 * time.Hour
	// projectorLag is how many events the store may be behind.
	projectorLag = 100_000
	// clockSkew is by how much clocks may differ.
	clockSkew = time.Second
)

// groups checks the worker groups.
func (d Diagnosis) groups(ctx context.Context, adm *kadm.Client, r *report) {
	groups, err := DiscoverGroups(ctx, d.Kafka, d.Group)
	if err != nil {
		r.add(Fail, "group", d.Group, "`jobtrail topics apply`", "%s", r.clean.Error(err))
		return
	}
	if len(groups) == 0 {
		r.add(Warn, "group", "", "`jobtrail topics apply` makes one", "there is no worker group")
		return
	}
	for _, g := range groups {
		d.topics(ctx, r, g)
		d.members(ctx, r, g)
		d.queues(ctx, r, g)
		d.projectors(ctx, adm, r, g)
		d.transactions(ctx, adm, r, g)
	}
	d.clock(ctx, adm, r, groups)
}

// topics checks the topology as a worker does at its start, replicas and start
// offsets.
func (d Diagnosis) topics(ctx context.Context, r *report, g Group) {
	t, name := g.Topology, g.Topology.Group
	found, err := FetchTopology(ctx, d.Kafka, t)
	if err != nil {
		r.unknown("topics", name, err)
		return
	}
	problems := t.Check(found)
	// Without job topics nothing says how many partitions there should be.
	if len(t.Jobs) == 0 {
		for topic, f := range found {
			if f.Partitions != g.Partitions {
				problems = append(problems, retrytopics.Problem{Topic: topic, Setting: "partitions", Found: strconv.Itoa(f.Partitions), Wanted: strconv.Itoa(g.Partitions), Why: "the evidence log has so many"})
			}
		}
	}
	slices.SortFunc(problems, func(a, b retrytopics.Problem) int { return strings.Compare(a.Topic, b.Topic) })
	most := g.Partitions
	for _, f := range found {
		most = max(most, f.Partitions)
	}
	for _, line := range retrytopics.Summarise(problems) {
		do := "`jobtrail topics plan`, then `jobtrail topics apply`"
		if strings.Contains(line, ": partitions is ") && len(t.Jobs) > 0 {
			do = fmt.Sprintf("stop the group's workers, which cannot work so; then `%s`; then start them", t.ApplyCommand(most))
		}
		r.add(Fail, "topics", name, do, "%s", line)
	}
	if len(t.Tiers) == 0 || t.Tiers[0] != 0 {
		r.add(Fail, "topics", name, "`jobtrail topics apply`", "there is no topic %s, which hops without a delay need", t.Retry(0))
	}
	if len(problems) == 0 {
		r.add(OK, "topics", name, "", "as workers demand: %d topics, partitions 0 to %d, job topics %s, tiers %s", len(found), g.Partitions-1, list(t.Jobs), t.Tiers)
	}
	d.replicas(ctx, r, g, found)
	missing := 0
	for _, lane := range t.Lanes() {
		missing += found[lane].Partitions - len(g.Commits[lane])
	}
	switch {
	case len(t.Jobs) == 0:
		r.add(Warn, "start", name, "`jobtrail topics apply` with --jobs and --start", "the group has no commit on any job topic: nothing says where it begins")
	case missing > 0:
		r.add(Warn, "start", name, "nothing while the group is new or was idle for long (workers restore commits from the log); else stop the workers and `jobtrail topics apply`", "%d partitions have no commit", missing)
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return "unknown"
	}
	return strings.Join(names, ", ")
}

// replicas checks that the evidence survives a broker, and that every partition
// has a leader.
func (d Diagnosis) replicas(ctx context.Context, r *report, g Group, found map[string]retrytopics.Found) {
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	topics, err := listTopics(ctx, d.Kafka, names)
	if err != nil {
		r.unknown("replicas", g.Topology.Group, err)
		return
	}
	least, leaderless, behind := 1<<30, []string{}, 0
	for name, topic := range topics {
		for _, p := range topic.Partitions {
			least = min(least, len(p.Replicas))
			if p.Leader < 0 {
				leaderless = append(leaderless, fmt.Sprintf("%s/%d", name, p.Partition))
			}
			if len(p.ISR) < len(p.Replicas) {
				behind++
			}
		}
	}
	group, isr := g.Topology.Group, found[g.Topology.Evidence()].Configs["min.insync.replicas"]
	if len(leaderless) > 0 {
		slices.Sort(leaderless)
		r.add(Fail, "replicas", group, "start the brokers that hold them", "%d partitions have no leader: %s", len(leaderless), strings.Join(leaderless[:min(5, len(leaderless))], ", "))
	}
	switch {
	case least < 2:
		r.add(Warn, "replicas", group, "three brokers, `jobtrail topics apply --replication-factor 3` for new topics, min.insync.replicas=2", "a topic has one replica: a lost disk loses its jobs and evidence")
	case isr == "1":
		r.add(Warn, "replicas", group, "set min.insync.replicas=2", "min.insync.replicas is 1: what is acknowledged may be on one disk only")
	case behind > 0:
		r.add(Warn, "replicas", group, "see why brokers are behind", "%d partitions have a replica that is behind", behind)
	default:
		r.add(OK, "replicas", group, "", "at least %d replicas, min.insync.replicas %s", least, isr)
	}
}

// members checks who works for the group.
func (d Diagnosis) members(ctx context.Context, r *report, g Group) {
	name := g.Topology.Group
	switch {
	case len(g.Members) == 0:
		r.add(Warn, "members", name, "start a worker", "no worker runs")
		return
	case g.Type != "consumer":
		r.add(Fail, "members", name, "stop what is not a worker of jobtrail", "the group uses the %s protocol; workers need KIP-848's", g.Type)
	}
	ids := make([]string, len(g.Members))
	lanes := 0
	for i, m := range g.Members {
		ids[i] = fmt.Sprintf("%s (%d lanes)", m.ClientID, m.Lanes)
		lanes += m.Lanes
	}
	r.add(OK, "members", name, "", "at work, %s: %s", strings.ToLower(g.State), strings.Join(ids, ", "))
	if want := g.Partitions * len(g.Topology.Lanes()); lanes < want {
		r.add(Warn, "members", name, "nothing during a rebalance; else see the workers' logs", "%d of %d lanes have an owner", lanes, want)
	}
	switch own, ok, err := groupSession(ctx, d.Kafka, name); {
	case err != nil:
		r.unknown("session", name, err)
	case ok:
		r.add(OK, "session", name, "", "the group has a session timeout of its own: a lost worker is noticed after %s", own)
	}
}

// groupSession returns the group's own session timeout, when it has one. The
// error is about a missing permission.
func groupSession(ctx context.Context, cl *kgo.Client, group string) (session time.Duration, own bool, err error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, false, nil
	}
	for _, res := range resp.Resources {
		if err := kerr.ErrorForCode(res.ErrorCode); errors.Is(err, kerr.GroupAuthorizationFailed) {
			return 0, false, denied(err, "DescribeConfigs", "group "+group)
		}
		for _, c := range res.Configs {
			if c.Name == "consumer.session.timeout.ms" && c.Value != nil && c.Source == kmsg.ConfigSourceGroupConfig {
				ms, err := strconv.ParseInt(*c.Value, 10, 64)
				return time.Duration(ms) * time.Millisecond, err == nil, nil
			}
		}
	}
	return 0, false, nil
}

// queues checks what waits.
func (d Diagnosis) queues(ctx context.Context, r *report, g Group) {
	name := g.Topology.Group
	queues, err := ListQueues(ctx, d.Kafka, g)
	if err != nil {
		r.unknown("queues", name, err)
		return
	}
	found, err := FetchTopology(ctx, d.Kafka, g.Topology)
	if err != nil {
		r.unknown("queues", name, err)
		return
	}
	waiting, retrying := int64(0), int64(0)
	oldest := events.Time(0)
	for _, q := range queues {
		switch q.Role {
		case retrytopics.RoleJobs:
			waiting += q.Depth
			if q.Oldest != 0 && (oldest == 0 || q.Oldest < oldest) {
				oldest = q.Oldest
			}
		case retrytopics.RoleRetry:
			retrying += q.Depth
			if late := q.Overdue(d.Now()); late > overdueFor {
				r.add(Warn, "queues", name, "see whether workers run, whether a breaker is open, and whether a long job holds the offset", "the first record of %s is overdue by %s", q.Topic, late.Round(time.Second))
			}
		case retrytopics.RoleParked, retrytopics.RoleDLQ:
			keep, err := strconv.ParseInt(found[q.Topic].Configs["retention.ms"], 10, 64)
			if left := time.Duration(keep)*time.Millisecond - d.Now().Sub(q.Oldest); err == nil && keep >= 0 && q.Oldest != 0 && left < expiresSoon {
				r.add(Warn, "retention", name, "decide on the old ones, or raise retention.ms", "the oldest record of %s is deleted in %s", q.Topic, left.Round(time.Hour))
			}
		}
	}
	age := ""
	if oldest != 0 {
		age = fmt.Sprintf(", the oldest for %s", max(0, d.Now().Sub(oldest)).Round(time.Second))
	}
	r.add(OK, "queues", name, "", "not finished: at most %d%s; waiting for a retry: at most %d", waiting, age, retrying)
}

// lacks says in words how much the store may be behind.
func lacks(events int64) string {
	switch events {
	case 0:
		return "the store has everything"
	case 1:
		return "the store lacks at most 1 event"
	}
	return fmt.Sprintf("the store lacks at most %d events", events)
}

// projectors checks how far the store is behind the log.
func (d Diagnosis) projectors(ctx context.Context, adm *kadm.Client, r *report, g Group) {
	name := g.Topology.Group
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		r.unknown("projector", name, err)
		return
	}
	_, stable, err := bounds(ctx, d.Kafka, []string{g.Topology.Evidence()})
	if err != nil {
		r.unknown("projector", name, err)
		return
	}
	any := false
	for _, id := range listed.Groups() {
		if !strings.HasPrefix(id, name+".projector.") {
			continue
		}
		any = true
		p, err := fetchGroup(ctx, d.Kafka, id)
		if err != nil {
			r.unknown("projector", id, err)
			continue
		}
		lag := int64(0)
		for partition, end := range stable[g.Topology.Evidence()] {
			lag += end - max(0, p.Commits[g.Topology.Evidence()][partition].At)
		}
		switch {
		case len(p.Members) == 0:
			r.add(Warn, "projector", id, "start a projector, unless it fills a generation that is not used any more", "no projector runs; %s", lacks(lag))
		case lag > projectorLag:
			r.add(Warn, "projector", id, "see the projector's log, and whether ClickHouse takes inserts", "%s", lacks(lag))
		default:
			r.add(OK, "projector", id, "", "runs; %s", lacks(lag))
		}
	}
	if any {
		return
	}
	// Groups that the user may not see are not listed.
	database := cmp.Or(d.Database, "jobtrail")
	if err := adm.FindGroupCoordinators(ctx, name+".projector."+database+"_a").Error(); errors.Is(err, kerr.GroupAuthorizationFailed) {
		r.unknown("projector", name, denied(err, "Describe", "groups that begin with "+name+".projector."))
	} else {
		r.add(Warn, "projector", name, "start a projector with JOBTRAIL_GROUPS="+name, "no projector has run: the evidence is only on the log")
	}
}

// transactions looks for open transactions that hold up who reads the topics.
func (d Diagnosis) transactions(ctx context.Context, adm *kadm.Client, r *report, g Group) {
	name := g.Topology.Group
	wanted := g.Topology.Topics(0)
	names := make([]string, len(wanted))
	for i, topic := range wanted {
		names[i] = topic.Name
	}
	found, err := listTopics(ctx, d.Kafka, names)
	if err != nil {
		r.unknown("transactions", name, err)
		return
	}
	// Transactions that the user may not see are not listed.
	if err := adm.FindTxnCoordinators(ctx, name+"/").Error(); errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		r.unknown("transactions", name, denied(err, "Describe", "transactional ids that begin with "+name+"/"))
		return
	}
	names = slices.DeleteFunc(names, func(topic string) bool { _, ok := found[topic]; return !ok })
	_, stable, err := bounds(ctx, d.Kafka, names)
	if err != nil {
		r.unknown("transactions", name, err)
		return
	}
	ends, err := listOffsets(adm.ListEndOffsets(ctx, names...))
	if err != nil {
		r.unknown("transactions", name, err)
		return
	}
	held := kadm.TopicsSet{}
	behind := int64(0)
	for topic, partitions := range ends {
		for p, end := range partitions {
			if n := end - stable[topic][p]; n > 0 {
				held.Add(topic, p)
				behind += n
			}
		}
	}
	hung := 0
	if len(held) > 0 {
		if hung, err = d.hung(ctx, adm, r, name, held); err != nil {
			r.unknown("transactions", name, err)
			return
		}
	}
	if hung == 0 {
		r.add(OK, "transactions", name, "", "no transaction is open for more than %s (records in open ones: %d)", hungAfter, behind)
	}
}

func (d Diagnosis) hung(ctx context.Context, adm *kadm.Client, r *report, group string, held kadm.TopicsSet) (int, error) {
	described, err := adm.DescribeProducers(ctx, held)
	if err != nil {
		return 0, fmt.Errorf("describing producers: %w", err)
	}
	n := 0
	for _, p := range described.SortedProducers() {
		age := d.Now().Sub(events.Time(p.LastTimestamp))
		if p.CurrentTxnStartOffset < 0 || age < hungAfter {
			continue
		}
		n++
		id := "unknown to the coordinators"
		txns, err := adm.ListTransactions(ctx, []int64{p.ProducerID}, nil)
		if err != nil {
			return 0, fmt.Errorf("listing transactions of producer %d: %w", p.ProducerID, err)
		}
		if ids := txns.TransactionalIDs(); len(ids) > 0 {
			id = strings.Join(ids, ", ")
		}
		r.add(Fail, "transactions", group,
			fmt.Sprintf("stop its producer if it still runs; then kafka-transactions.sh --bootstrap-server … abort --topic %s --partition %d --start-offset %d", p.Topic, p.Partition, p.CurrentTxnStartOffset),
			"a transaction on %s/%d is open since offset %d and silent for %s: nothing behind it is visible (producer %d, transactional id %s)",
			p.Topic, p.Partition, p.CurrentTxnStartOffset, age.Round(time.Second), p.ProducerID, id)
	}
	return n, nil
}

// clock compares this machine's clock with the newest log times. Kafka answers
// no question about its time, so only a clock that is behind can be seen.
func (d Diagnosis) clock(ctx context.Context, adm *kadm.Client, r *report, groups []Group) {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Topology.Evidence()
	}
	listed, err := adm.ListMaxTimestampOffsets(ctx, names...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		r.unknown("clock", "", err)
		return
	}
	newest := int64(-1)
	listed.Each(func(o kadm.ListedOffset) { newest = max(newest, o.Timestamp) })
	switch ahead := events.Time(newest).Sub(d.Now()); {
	case newest < 0:
		r.add(OK, "clock", "", "", "not compared with the brokers': there is no evidence yet, and measuring would need a write")
	case ahead > clockSkew:
		r.add(Warn, "clock", "", "synchronise the clocks (NTP)", "this machine's clock is at least %s behind the brokers': the newest evidence is from the future", ahead.Round(time.Millisecond))
	default:
		r.add(OK, "clock", "", "", "not behind the brokers' (workers measure the difference with every tick)")
	}
}
