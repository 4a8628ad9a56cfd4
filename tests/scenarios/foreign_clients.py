"""The same few steps through each unmodified client, so that a story is told once for all."""

from collections.abc import Iterable, Iterator
from typing import Protocol

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


class ForeignClient(Protocol):
    """What a story asks of a client library."""

    def create_topic(self, bootstrap: str, topic: str, config: dict[str, str]) -> None: ...

    def produce(self, bootstrap: str, topic: str, values: Iterable[bytes]) -> int:
        """Send with acks=all; the number that the broker acknowledged."""
        ...

    def read(self, bootstrap: str, topic: str, group: str) -> Iterator[tuple[int, bytes]]:
        """Offsets and values from the beginning, as a member of the group; never ends by itself.

        Fails when nothing comes for a minute.
        """
        ...


class ConfluentKafka:
    """librdkafka through confluent-kafka."""

    def create_topic(self, bootstrap: str, topic: str, config: dict[str, str]) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        new_topic = NewTopic(topic, num_partitions=1, replication_factor=1, config=config)
        # The client publishes this without all of its types.
        for created in admin.create_topics([new_topic]).values():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            created.result(30)

    def produce(self, bootstrap: str, topic: str, values: Iterable[bytes]) -> int:
        acknowledged = 0

        def on_delivery(error: object, _message: object) -> None:
            nonlocal acknowledged
            assert error is None, error
            acknowledged += 1

        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5}
        )
        for value in values:
            while True:
                try:
                    producer.produce(topic, value, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.05)
            producer.poll(0)
        producer.flush(60)
        return acknowledged

    def read(self, bootstrap: str, topic: str, group: str) -> Iterator[tuple[int, bytes]]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.subscribe([topic])
            while True:
                messages = consumer.consume(1_000, timeout=60)
                assert messages, "nothing came for a minute"
                for message in messages:
                    assert message.error() is None, message.error()
                    offset, value = message.offset(), message.value()
                    assert offset is not None
                    assert isinstance(value, bytes)
                    yield offset, value
        finally:
            consumer.close()


class KafkaPython:
    """kafka-python: the protocol in pure Python, at other versions than librdkafka's."""

    def create_topic(self, bootstrap: str, topic: str, config: dict[str, str]) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic as KafkaPythonTopic

        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            # The client publishes this without all of its types.
            admin.create_topics([KafkaPythonTopic(topic, 1, 1, topic_configs=config)])  # pyright: ignore[reportUnknownMemberType]
        finally:
            admin.close()

    def produce(self, bootstrap: str, topic: str, values: Iterable[bytes]) -> int:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", batch_size=65536)
        try:
            futures = [producer.send(topic, value) for value in values]
            producer.flush(timeout=120)
            for future in futures:
                # The client publishes this without all of its types.
                future.get(timeout=60)  # pyright: ignore[reportUnknownMemberType]
            return len(futures)
        finally:
            producer.close()

    def read(self, bootstrap: str, topic: str, group: str) -> Iterator[tuple[int, bytes]]:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            consumer_timeout_ms=60_000,
        )
        try:
            for record in consumer:
                yield record.offset, record.value
            raise AssertionError("nothing came for a minute")
        finally:
            consumer.close()


CLIENTS: dict[str, ForeignClient] = {
    "confluent-kafka": ConfluentKafka(),
    "kafka-python": KafkaPython(),
}
