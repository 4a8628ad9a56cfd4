"""What a user's client does first: a record there and back, by librdkafka."""

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

_WITHIN_S = 60.0


def round_trip(bootstrap: str) -> str | None:
    """A record is written and read; returns the id of the cluster."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("greetings", b"hello", partition=0)
    assert producer.flush(_WITHIN_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition("greetings", 0, 0)])
    message = consumer.poll(_WITHIN_S)
    consumer.close()
    assert message is not None
    assert message.value() == b"hello"
    return AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=_WITHIN_S).cluster_id
