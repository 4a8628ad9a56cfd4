"""A cluster loses its disk and comes back from its tier: the story, at any size.

`python -m tierlog.tests.scenarios.rebuild_story DIRECTORY TOPICS MEGABYTES` tells it at full size
on a `file` tier and prints what it took.
"""

import hashlib
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests.scenarios.tier_command import Answer, tier
from tierlog.tests.waiting import wait_until

VALUE_BYTES = 1000
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "remote.log.manager.task.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    "offsets.topic.num.partitions": "2",
    # A slow store, or a slow machine: one long wait is better than many that time out.
    "remote.fetch.max.wait.ms": "10000",
}

Partition = tuple[str, int]

_WAIT_S = 0.2
"""A client asked for many records waits so long for the last of them."""


@dataclass(slots=True)
class Story:
    """What was produced to a node, record by record, and what must come back of it."""

    node: TierlogNode
    topics: list[str]
    partitions: int
    segment_bytes: int
    produced: dict[Partition, int] = field(default_factory=dict[Partition, int])
    digests: dict[Partition, list[bytes]] = field(default_factory=dict[Partition, list[bytes]])
    """Of each record, whole, by offset."""

    @property
    def config(self) -> dict[str, str]:
        return {
            "remote.storage.enable": "true",
            "segment.bytes": str(self.segment_bytes),
            "local.retention.bytes": str(self.segment_bytes),
            "retention.ms": "123456789000",
            "compression.type": "producer",
        }

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        topics = [NewTopic(each, self.partitions, 1, config=self.config) for each in self.topics]
        # The client publishes this without all of its types.
        for created in admin.create_topics(topics).values():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            created.result(30)

    def produce(self, records_per_partition: int) -> None:
        """Send to every partition; keys, headers and timestamps as a client would set them."""
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.node.bootstrap, "acks": "all", "linger.ms": 20}
        )
        for topic in self.topics:
            for partition in range(self.partitions):
                first = self.produced.get((topic, partition), 0)
                for number in range(first, first + records_per_partition):
                    value = hashlib.sha256(f"{topic} {partition} {number}".encode()).digest()
                    while True:
                        try:
                            producer.produce(
                                topic,
                                (value * (VALUE_BYTES // len(value) + 1))[:VALUE_BYTES],
                                key=f"k{number}",
                                partition=partition,
                                headers=[("n", str(number).encode())],
                            )
                            break
                        except BufferError:
                            producer.poll(0.05)
                self.produced[topic, partition] = first + records_per_partition
        assert producer.flush(120) == 0

    def read(self, ends: Mapping[Partition, int]) -> dict[Partition, list[bytes]]:
        """A digest of each record below these offsets, as a consumer gets it from the beginning."""
        found: dict[Partition, list[bytes]] = {each: [] for each in ends}
        for partition, offset, digest in _records(self.node.bootstrap, ends):
            assert offset == len(found[partition]), f"{partition}: {offset}"
            found[partition].append(digest)
        return found

    def remember(self) -> None:
        """Read everything, to have something to compare with."""
        self.digests = self.read(self.produced)

    def tiered(self) -> dict[Partition, int]:
        """By partition, one past the last offset in the tier."""
        answer = tier(self.node, "ls", "--json")
        assert answer.code == 0, answer
        return {
            (each["topic"], each["partition"]): each["end_offset"] + 1
            for each in answer.fields["partitions"]
            if each["end_offset"] is not None
        }

    def wait_until_tiered(self) -> dict[Partition, int]:
        """Until the tier has all but the last segment or two of each partition."""
        rest = 2 * self.segment_bytes // VALUE_BYTES

        def is_there() -> bool:
            tiered = self.tiered()
            return all(tiered.get(each, 0) >= end - rest for each, end in self.produced.items())

        wait_until(is_there, 120, lambda: f"{self.tiered()} of {self.produced}")
        return self.tiered()

    def lose_the_disk(self) -> None:
        self.node.stop()
        shutil.rmtree(self.node.directory / "logs")

    def rebuild(self) -> Answer:
        answer = tier(self.node, "rebuild", "--take-over", "--json")
        assert answer.code == 0, answer
        return answer

    def forget_what_was_not_tiered(self, tiered: Mapping[Partition, int]) -> None:
        """What the disk alone had is gone."""
        for partition, end in tiered.items():
            self.produced[partition] = end
            del self.digests[partition][end:]


def _records(
    bootstrap: str, ends: Mapping[Partition, int]
) -> Iterator[tuple[Partition, int, bytes]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(*each, 0) for each in ends])
    remaining = {each: end for each, end in ends.items() if end}
    silences = 0
    try:
        while remaining:
            messages = consumer.consume(5_000, timeout=_WAIT_S)
            silences = 0 if messages else silences + 1
            assert silences * _WAIT_S < 60, f"nothing came for a minute: {remaining}"
            for message in messages:
                assert message.error() is None, message.error()
                topic, number, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert number is not None
                assert offset is not None
                partition = (topic, number)
                if offset >= ends[partition]:
                    continue
                yield partition, offset, _digest(message)
                if offset + 1 == ends[partition]:
                    del remaining[partition]
    finally:
        consumer.close()


def _digest(message: confluent_kafka.Message) -> bytes:
    whole = (message.timestamp(), message.key(), message.value(), message.headers())
    return hashlib.blake2b(repr(whole).encode(), digest_size=8).digest()


def main(directory: Path, topics: int, megabytes: int) -> None:
    """Tell it at this size and print how long each part took."""
    shutil.rmtree(directory, ignore_errors=True)
    partitions = 2
    records = megabytes * 1_000_000 // VALUE_BYTES // topics // partitions
    with TierlogNode(directory / "node", properties=PROPERTIES) as node:
        story = Story(node, [f"topic-{each}" for each in range(topics)], partitions, 8 << 20)
        story.create_topics()
        story.produce(records)
        tiered = story.wait_until_tiered()
        story.remember()
        story.lose_the_disk()
        began = time.monotonic()
        nbytes = sum(each["bytes"] for each in story.rebuild().fields["topics"])
        took = time.monotonic() - began
        print(f"rebuilt {nbytes / 1e6:.0f} MB in {took:.2f} s, {nbytes / 1e6 / took:.0f} MB/s")
        began = time.monotonic()
        node.start()
        print(f"started in {time.monotonic() - began:.2f} s")
        story.forget_what_was_not_tiered(tiered)
        began = time.monotonic()
        assert story.read(tiered) == story.digests
        took = time.monotonic() - began
        count = sum(tiered.values())
        print(f"{count} records are equal, read in {took:.1f} s, {nbytes / 1e6 / took:.0f} MB/s")
        began = time.monotonic()
        answer = tier(node, "verify", "--bootstrap", node.bootstrap)
        took = time.monotonic() - began
        print(f"{answer.output.strip()} ({took:.1f} s, {nbytes / 1e6 / took:.0f} MB/s)")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
