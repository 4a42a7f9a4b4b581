package jobs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/jobs"
)

func ExamplePublisher_Publish() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.jobs"))
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	publisher, err := jobs.New(jobs.Config{Topic: "shop.jobs"}, client)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pub, err := publisher.Publish(ctx, jobs.Job{
		ID:          "order-4711/charge",
		Type:        "charge-card",
		OperationID: "checkout-4711",
		TenantID:    "acme",
		ContentType: "application/json",
		Value:       []byte(`{"order": 4711}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s is at %s/%d/%d\n", pub.JobID, pub.Topic, pub.Partition, pub.Offset)
	// Output: order-4711/charge is at shop.jobs/0/0
}
