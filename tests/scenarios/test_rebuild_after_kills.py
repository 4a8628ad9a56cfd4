"""A broker on S3 is killed while it is written to and copies, and loses its disk, again and again.

After each kill the bucket alone gives back the log up to the last segment that was copied whole:
each record that a producer was told of stands where it was told, once, and so does what had come
back from the rebuilds before.
"""

import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.object_store import ObjectStore
from tierlog.tests.scenarios.tier_command import tier
from tierlog.tests.waiting import wait_until

TOPICS: tuple[str, ...] = ("orders", "payments")
VALUE_BYTES = 8_000
SEGMENT_BYTES = 1 << 20
RECORDS_A_ROUND = 900
LEFT_BY_THE_PRODUCER_MS = 60_000
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": str(SEGMENT_BYTES),
    "retention.ms": "-1",
}
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "remote.log.manager.task.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.fetch.max.wait.ms": "1000",
}


@dataclass(slots=True)
class Acknowledged:
    """What the producers were told, by topic and offset, of the log as it is now."""

    values: dict[str, dict[int, bytes]] = field(
        default_factory=lambda: {topic: dict[int, bytes]() for topic in TOPICS}
    )

    def arrived(self, error: confluent_kafka.KafkaError | None, sent: object) -> None:
        """What the producer calls with each record's end."""
        assert isinstance(sent, confluent_kafka.Message)
        topic, offset, value = sent.topic(), sent.offset(), sent.value()
        if error is None and topic is not None and offset is not None and value is not None:
            assert self.values[topic].setdefault(offset, value) == value, (topic, offset)

    def count(self) -> int:
        """Records that the producers were told of."""
        return sum(map(len, self.values.values()))

    def cut(self, ends: dict[str, int]) -> None:
        """What the lost disk alone had is gone; its offsets are given to other records."""
        for topic, end in ends.items():
            kept = {at: value for at, value in self.values[topic].items() if at < end}
            self.values[topic] = kept


def values(round_number: int) -> Iterator[tuple[str, bytes]]:
    """Topics and values in turn; each value says which one it is."""
    for number in range(RECORDS_A_ROUND):
        for topic in TOPICS:
            words = f"{topic} {round_number} {number} ".encode()
            yield topic, words * (VALUE_BYTES // len(words))


def produce(
    node: TierlogNode, round_number: int, records: int, acknowledged: Acknowledged
) -> confluent_kafka.Producer:
    """Produce until so many further records have arrived; the producer has sent more by then."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 50,
            "delivery.timeout.ms": LEFT_BY_THE_PRODUCER_MS,
            "log_level": 0,
        }
    )
    goal = acknowledged.count() + records
    for topic, value in values(round_number):
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=acknowledged.arrived)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
        if acknowledged.count() >= goal:
            break
    return producer


def produce_until_killed(
    node: TierlogNode, round_number: int, records: int, acknowledged: Acknowledged
) -> None:
    """Produce, and kill the broker in the midst of it, once so many records have arrived."""
    producer = produce(node, round_number, records, acknowledged)
    node.kill()
    # Acknowledgements that have arrived count; all else is given up.
    producer.poll(0)
    producer.purge()
    producer.flush(10)


def read(node: TierlogNode, topic: str, end: int) -> list[bytes]:
    """The values from the beginning of a log to its end, in the order of their offsets."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": node.bootstrap, "group.id": "reader"})
    first, last = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), 30)
    assert (first, last) == (0, end)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []

    def has_all() -> bool:
        for each in consumer.consume(1_000, timeout=0.2):
            assert each.error() is None, each.error()
            assert each.offset() == len(found)
            found.append(each.value() or b"")
        return len(found) >= end

    try:
        wait_until(has_all, 60, lambda: f"{len(found)} of {end}")
    finally:
        consumer.close()
    return found


def ends_in_tier(node: TierlogNode) -> dict[str, int]:
    """By topic, one past the last offset of the segments that were copied whole."""
    answer = tier(node, "ls", "--json")
    assert answer.code == 0, answer
    ends = dict.fromkeys(TOPICS, 0)
    for each in answer.fields["partitions"]:
        if each["end_offset"] is not None:
            ends[each["topic"]] = each["end_offset"] + 1
    return ends


def assert_came_back(
    found: Sequence[bytes], acknowledged: dict[int, bytes], before: Sequence[bytes]
) -> None:
    assert len(set(found)) == len(found), "a record stands there twice"
    assert list(found[: len(before)]) == list(before), "what had come back before has changed"
    wrong = [at for at, value in acknowledged.items() if found[at] != value]
    assert not wrong, f"acknowledged at {wrong[:5]}, and something else is there"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("lives", "rounds"),
    [pytest.param(1, 3, id="3"), pytest.param(5, 10, id="50", marks=pytest.mark.long)],
)
def test_the_bucket_gives_back_what_was_copied_before_each_kill(
    lives: int, rounds: int, tmp_path: Path
) -> None:
    with ObjectStore(tmp_path) as store:
        store.start()
        for life in range(lives):
            url = f"{store.properties['rsm.config.url']}/{life}"
            there = PROPERTIES | store.properties | {"rsm.config.url": url}
            with TierlogNode(tmp_path / f"node-{life}", properties=there) as node:
                live(node, rounds, random.Random(life))
                assert tier(node, "verify").code == 0
                assert "Traceback" not in node.output


def live(node: TierlogNode, rounds: int, chance: random.Random) -> None:
    """Kill the broker, take its disk and rebuild it, as often as that."""
    acknowledged = Acknowledged()
    before: dict[str, list[bytes]] = {topic: [] for topic in TOPICS}
    for topic in TOPICS:
        CLIENTS["confluent-kafka"].create_topic(node.bootstrap, topic, TOPIC_CONFIG)
    assert produce(node, -1, RECORDS_A_ROUND, acknowledged).flush(60) == 0
    wait_until(lambda: all(ends_in_tier(node).values()), 60, "nothing is copied")
    for number in range(rounds):
        kill_after = chance.randrange(300, 2 * RECORDS_A_ROUND)
        produce_until_killed(node, number, kill_after, acknowledged)
        if chance.random() < 0.3:
            # It had begun again, and was copying what is left, when it died once more.
            node.start()
            node.kill()
        ends = ends_in_tier(node)
        shutil.rmtree(node.directory / "logs")
        answer = tier(node, "rebuild", "--take-over", "--json")
        assert answer.code == 0, answer
        node.start()
        acknowledged.cut(ends)
        for topic, end in ends.items():
            found = read(node, topic, end)
            assert end >= len(before[topic]), "the tier has lost what had come back"
            assert_came_back(found, acknowledged.values[topic], before[topic])
            before[topic] = found
