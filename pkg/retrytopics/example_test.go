package retrytopics_test

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// A policy says what follows a failed attempt, the tiers which topic carries the
// retry.
func ExamplePolicy_Next() {
	policy := retrytopics.DefaultPolicy()
	policy.Jitter = 0
	now := events.TimeOf(time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC))
	failure := retrytopics.Failure{Class: events.ClassTransient}
	for used := uint32(1); used <= 5; used++ {
		route := policy.Next(retrytopics.History{AttemptID: uuid.UUID{1}, BudgetUsed: used, OriginAt: now}, failure, now)
		if route.Verdict != retrytopics.Retry {
			fmt.Println("after", used, "failures:", route.Reason)
			continue
		}
		wait := route.At.Sub(now)
		fmt.Println("after", used, "failures: in", wait, "by tier", retrytopics.TierName(retrytopics.DefaultTiers().For(wait)))
	}
	// Output:
	// after 1 failures: in 1s by tier 1s
	// after 2 failures: in 2s by tier 2s
	// after 3 failures: in 4s by tier 4s
	// after 4 failures: in 8s by tier 8s
	// after 5 failures: exhausted
}

// All topics of a group follow from its name, its job topics and its tiers.
func ExampleTopology() {
	topology := retrytopics.Topology{Group: "shop", Jobs: []string{"shop.jobs"}, Tiers: retrytopics.Tiers{0, time.Minute}}
	for _, topic := range topology.Topics(1 << 20) {
		fmt.Println(topic.Role, topic.Name)
	}
	// Output:
	// evidence shop.evidence
	// retry shop.retry.0s
	// retry shop.retry.1m
	// dlq shop.dlq
	// parked shop.parked
	// commands shop.commands
	// jobs shop.jobs
}
