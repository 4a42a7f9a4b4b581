package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// RefusedError says that a plan holds something that may not be applied.
type RefusedError struct{ Problems []retrytopics.Problem }

// Error implements error, one problem a line.
func (e *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("nothing was changed, since this is not possible:")
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// ApplyTopics does the steps of a plan in their order and calls done after each.
// At the end it waits until the brokers show what a worker demands. When it
// fails, planning again shows what is left. A plan with Refused gives a
// *RefusedError and changes nothing.
func ApplyTopics(ctx context.Context, cl *kgo.Client, p Plan, done func(Step)) error {
	if len(p.Refused) > 0 {
		return &RefusedError{p.Refused}
	}
	for _, step := range p.Steps {
		if err := applyStep(ctx, cl, p.Request, step); err != nil {
			return err
		}
		done(step)
	}
	if len(p.Steps) == 0 {
		return nil
	}
	return awaitTopology(ctx, cl, p.Request)
}

func applyStep(ctx context.Context, cl *kgo.Client, req TopicsRequest, step Step) error {
	adm := kadm.NewClient(cl)
	switch step.Action {
	case CreateTopic:
		factor := int16(-1)
		if req.Replication > 0 {
			factor = int16(req.Replication)
		}
		configs := make(map[string]*string, len(step.Configs))
		for k, v := range step.Configs {
			configs[k] = &v
		}
		// The call's error is the answer's own, without what the broker says of it.
		created, err := adm.CreateTopics(ctx, int32(req.Partitions), factor, configs, step.Topic)
		if err == nil {
			err = said(created[step.Topic].Err, created[step.Topic].ErrMessage)
		}
		if errors.Is(err, kerr.TopicAlreadyExists) {
			err = fmt.Errorf("somebody else made it meanwhile (%w); plan again", err)
		}
		if err != nil {
			return fmt.Errorf("creating topic %s: %w", step.Topic, denied(err, "Create", "topic "+step.Topic))
		}
	case GrowTopic:
		grown, err := adm.UpdatePartitions(ctx, req.Partitions, step.Topic)
		if err == nil {
			err = said(grown[step.Topic].Err, grown[step.Topic].ErrMessage)
		}
		if err != nil {
			return fmt.Errorf("growing topic %s to %d partitions: %w", step.Topic, req.Partitions, denied(err, "Alter", "topic "+step.Topic))
		}
	case AlterTopic:
		altered, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: step.Setting, Value: &step.Wanted}}, step.Topic)
		for _, r := range altered {
			err = errors.Join(err, said(r.Err, r.ErrMessage))
		}
		if err != nil {
			return fmt.Errorf("setting %s of topic %s to %s: %w", step.Setting, step.Topic, step.Wanted, denied(err, "AlterConfigs", "topic "+step.Topic))
		}
	case SetStart:
		if err := commitStart(ctx, cl, req.Topology.Group, step); err != nil {
			on := "group " + req.Topology.Group
			if errors.Is(err, kerr.TopicAuthorizationFailed) {
				on = "topic " + step.Topic
			}
			return fmt.Errorf("setting the start of group %s in topic %s: %w", req.Topology.Group, step.Topic, denied(err, "Read", on))
		}
	default:
		return fmt.Errorf("applying step %q on topic %s: unknown action", step.Action, step.Topic)
	}
	return nil
}

// said adds what the broker says of an error.
func said(err error, message string) error {
	if err == nil || message == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, message)
}

// commitStart commits the first offsets of a group without members, with empty
// metadata: nothing is to be replayed. A topic that was just created may not be
// known everywhere yet.
func commitStart(ctx context.Context, cl *kgo.Client, group string, step Step) error {
	var offsets kadm.Offsets
	for partition, at := range step.Offsets {
		offsets.Add(kadm.Offset{Topic: step.Topic, Partition: partition, At: at, LeaderEpoch: -1})
	}
	return until(ctx, func() (bool, error) {
		err := kadm.NewClient(cl).CommitAllOffsets(ctx, group, offsets)
		switch {
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.StaleMemberEpoch):
			return true, fmt.Errorf("a worker of the group has started meanwhile (%w); stop it and apply again", err)
		case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), kerr.IsRetriable(err):
			return false, err
		}
		return true, err
	})
}

// awaitTopology waits until the brokers agree that nothing is wrong any more.
func awaitTopology(ctx context.Context, cl *kgo.Client, req TopicsRequest) error {
	return until(ctx, func() (bool, error) {
		found, err := FetchTopology(ctx, cl, req.Topology)
		if err != nil {
			return false, err
		}
		if problems := req.Topology.Check(found); len(problems) > 0 {
			return false, fmt.Errorf("the brokers still show: %s", problems[0])
		}
		return true, nil
	})
}

// until calls try until it is done or the context ends, and returns its last
// error; after the context's end, with what ended it.
func until(ctx context.Context, try func() (done bool, err error)) error {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for {
		done, err := try()
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		case <-pause.C:
		}
	}
}
