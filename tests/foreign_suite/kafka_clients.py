"""What the tests of this suite do with clients."""

from confluent_kafka import Consumer, Producer

WITHIN_S = 60


def produce(broker, topic, *values):
    """Send these values, and wait until the broker has stored each."""
    failures = []

    def stored(error, _message):
        if error is not None:
            failures.append(error)

    producer = Producer(broker.config(linger_ms=0))
    for value in values:
        producer.produce(topic, value, on_delivery=stored)
    assert producer.flush(WITHIN_S) == 0
    assert failures == []


def consume(broker, topic, group, count):
    """The first values of a topic, as a member of a group."""
    consumer = Consumer(broker.config(group_id=group, auto_offset_reset="earliest"))
    consumer.subscribe([topic])
    messages = consumer.consume(count, WITHIN_S)
    consumer.close()
    return [message.value() for message in messages]


def stored(broker, topic):
    """All values of a topic, as the broker's own client reads them."""
    return [record.value for record in broker.records(topic)]
