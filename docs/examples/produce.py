"""Publishes jobs to jobtrail with confluent-kafka (librdkafka).

    python3 produce.py BROKERS TOPIC < jobs.ndjson

reads one JSON object a line, {"job_id", "job_type", "operation_id", "tenant_id",
"not_before", "deadline", "content_type", "traceparent", "data"}, all but job_id
optional, and prints the place of each job.
"""

import json
import sys

from confluent_kafka import Producer

# Header of the record for each field of a line.
HEADERS = {
    "job_id": "job-id",
    "job_type": "job-type",
    "operation_id": "operation-id",
    "tenant_id": "tenant-id",
    "not_before": "not-before",
    "deadline": "deadline",
    "content_type": "content-type",
    "traceparent": "traceparent",
}


def new_producer(brokers):
    return Producer({
        "bootstrap.servers": brokers,
        # An acknowledged job is on every in-sync replica, once.
        "acks": "all",
        "enable.idempotence": True,
        # librdkafka's default puts a key elsewhere than other clients do: a job
        # published again by one of them would not be recognised as a duplicate.
        "partitioner": "murmur2_random",
    })


def publish(producer, topic, job, delivered):
    value = job.get("data")
    producer.produce(
        topic,
        key=job["job_id"].encode(),
        value=None if value is None else value.encode(),
        headers=[(HEADERS[name], str(job[name]).encode()) for name in HEADERS if job.get(name) is not None],
        on_delivery=delivered,
    )


def main():
    brokers, topic = sys.argv[1:]
    producer = new_producer(brokers)
    failed = []

    def delivered(error, message):
        if error is not None:
            failed.append(error)
            print(f"{message.key().decode()}: {error}", file=sys.stderr)
        else:
            print(f"{message.key().decode()} {message.topic()}/{message.partition()}/{message.offset()}")

    for line in sys.stdin:
        publish(producer, topic, json.loads(line), delivered)
        producer.poll(0)
    left = producer.flush(30)
    sys.exit(1 if failed or left else 0)


if __name__ == "__main__":
    main()
