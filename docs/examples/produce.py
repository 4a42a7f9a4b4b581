"""Publishes jobs to jobtrail with confluent-kafka (librdkafka).

    python3 produce.py BROKERS TOPIC < jobs.ndjson

reads one JSON object a line, {"job_id", "job_type", "operation_id", "tenant_id",
"not_before", "deadline", "content_type", "traceparent", "data"}, all but job_id
optional, and prints the place of each job. A job that cannot be published is
reported, and the others are published; the exit code is 1 then. Needs
confluent-kafka: pip install -r docs/examples/requirements.txt
"""

import json
import sys

from confluent_kafka import KafkaException, Producer

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
        # The client refuses larger ones by itself (default 1,000,000 bytes). Not
        # above max.message.bytes of the topic.
        "message.max.bytes": 1_000_000,
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

    for number, line in enumerate(sys.stdin, 1):
        try:
            job = json.loads(line)
            while True:
                try:
                    publish(producer, topic, job, delivered)
                    break
                except BufferError:  # the queue is full: wait for deliveries
                    producer.poll(1)
        except (KafkaException, ValueError, KeyError, TypeError, AttributeError) as error:
            failed.append(error)
            print(f"line {number}: {error!r}", file=sys.stderr)
        producer.poll(0)
    left = producer.flush(30)
    sys.exit(1 if failed or left else 0)


if __name__ == "__main__":
    main()
