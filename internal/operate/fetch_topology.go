package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// FetchTopology returns the topics of t that the brokers have, with their
// effective settings, by name; a topic that does not exist is left out. It asks
// the brokers anew each time and never creates a topic.
func FetchTopology(ctx context.Context, cl *kgo.Client, t retrytopics.Topology) (map[string]retrytopics.Found, error) {
	topics := t.Topics(0)
	names := make([]string, len(topics))
	for i, topic := range topics {
		names[i] = topic.Name
	}
	found, err := fetchTopics(ctx, cl, names)
	if err != nil {
		return nil, fmt.Errorf("fetching the topics of group %s: %w", t.Group, err)
	}
	return found, nil
}

// fetchTopics returns those of the named topics that exist.
func fetchTopics(ctx context.Context, cl *kgo.Client, names []string) (map[string]retrytopics.Found, error) {
	topics, err := listTopics(ctx, cl, names)
	if err != nil {
		return nil, err
	}
	found := make(map[string]retrytopics.Found, len(topics))
	existing := make([]string, 0, len(topics))
	for name, topic := range topics {
		found[name] = retrytopics.Found{ID: topic.TopicID, Partitions: len(topic.Partitions), Configs: map[string]string{}}
		existing = append(existing, name)
	}
	described, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, existing...)
	if err != nil {
		return nil, fmt.Errorf("describing topic settings: %w", denied(err, "DescribeConfigs", "at least one of "+strings.Join(existing, ", ")))
	}
	for _, r := range described {
		if r.Err != nil {
			return nil, fmt.Errorf("describing the settings of topic %s: %w", r.Name, denied(r.Err, "DescribeConfigs", "topic "+r.Name))
		}
		for _, c := range r.Configs {
			found[r.Name].Configs[c.Key] = c.MaybeValue()
		}
	}
	return found, nil
}

// listTopics returns what the brokers know of the named topics, of all topics
// when names is nil, past the client's cache; missing ones are left out.
func listTopics(ctx context.Context, cl *kgo.Client, names []string) (map[string]kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = new(name)
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("asking the brokers for topics: %w", err)
	}
	topics := make(map[string]kmsg.MetadataResponseTopic, len(resp.Topics))
	for _, topic := range resp.Topics {
		if topic.Topic == nil {
			continue
		}
		switch err := kerr.ErrorForCode(topic.ErrorCode); {
		case err == nil:
			topics[*topic.Topic] = topic
		case !errors.Is(err, kerr.UnknownTopicOrPartition):
			return nil, fmt.Errorf("asking the brokers for topic %s: %w", *topic.Topic, denied(err, "Describe", "topic "+*topic.Topic))
		}
	}
	return topics, nil
}
