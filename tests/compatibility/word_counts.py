"""Shared by tests: the word count of Kafka Streams, and lines for it."""

from collections import Counter
from pathlib import Path

import confluent_kafka

from tierlog.bench.harness.processes.kafka_peer import KAFKA_VERSION

from .foreign_members import ready
from .java_member import FLAGS

WORDS = [f"word{number}" for number in range(50)]


def word_count(bootstrap: str, directory: Path, guarantee: str) -> list[str]:
    fetch = f"mvn -q -B -Dkafka.version={KAFKA_VERSION} dependency:copy-dependencies"
    make = f"{fetch} -DoutputDirectory=jars && javac -cp 'jars/*' WordCount.java"
    folder = ready("streams", ("sh", "-c", make))
    return [
        *("java", *FLAGS, "-cp", f"{folder}:{folder / 'jars'}/*"),
        *("WordCount", bootstrap, str(directory), guarantee),
    ]


def write_lines(bootstrap: str, first: int, last: int) -> Counter[str]:
    """Lines of three words each; how often each word is in them."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    written = Counter[str]()
    for number in range(first, last):
        words = [WORDS[number * step % len(WORDS)] for step in (1, 3, 7)]
        written.update(words)
        producer.produce("lines", " ".join(words))
    assert producer.flush(60) == 0
    return written


class Counts:
    """The latest count of each word in the topic of counts."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
        )
        parts = [confluent_kafka.TopicPartition("counts", part, 0) for part in range(3)]
        self._consumer.assign(parts)
        self.latest = Counter[str]()

    def become(self, expected: Counter[str]) -> bool:
        for message in self._consumer.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            self.latest[key.decode()] = int(value)
        return self.latest == expected

    def describe(self) -> str:
        return f"{self.latest.total()} words are counted"

    def close(self) -> None:
        self._consumer.close()
