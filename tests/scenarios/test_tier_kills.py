"""kill -9 at random moments while records are produced, copied and expired and topics come and go.

A promise is an acknowledgement: what was acknowledged is there afterwards, at the offset that was
told, or lies below a log start that retention has allowed. Of topics that were deleted nothing is
left in the tier, and two scrub intervals later there is no object that belongs to no segment.
"""

import os
import random
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.object_store import ObjectStore
from tierlog.tests.scenarios.plain_io import read
from tierlog.tests.scenarios.tier_command import tier
from tierlog.tests.waiting import wait_until

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("TIERLOG_TIER_KILLS", "3"))
VALUE_BYTES = 2_000
SEGMENT_BYTES = 1_048_576
RETENTION_BYTES = 4 * SEGMENT_BYTES
SCRUB_INTERVAL_MS = 2_000
KEPT, EXPIRING = "kept", "expiring"
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "100",
}
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "50",
    "remote.log.manager.task.interval.ms": "100",
    "remote.log.manager.task.retry.backoff.ms": "100",
    "remote.log.manager.task.retry.backoff.max.ms": "1000",
    "remote.partition.remover.task.interval.ms": "1000",
    "tierlog.scrub.interval.ms": str(SCRUB_INTERVAL_MS),
    "tierlog.scrub.grace.ms": "500",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}


class Sender:
    """An idempotent producer in a thread, from before the first kill until after the last."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[str, dict[int, bytes]] = {KEPT: {}, EXPIRING: {}}
        self.errors: list[object] = []
        self.passing: str | None = None
        self.sent = 0
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def count(self) -> int:
        """How many records are acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    def _on_delivery(self, error: object, message: confluent_kafka.Message) -> None:
        offset, value, topic = message.offset(), message.value(), message.topic()
        if error is not None or offset is None:
            self.errors.append(error)
            return
        assert isinstance(value, bytes)
        assert topic is not None
        self.acknowledged[topic][offset] = value

    def _run(self) -> None:
        while not self._stopping.is_set():
            # A bounded number is under way, so that each kill hits fresh records.
            if len(self._producer) < 200:
                value = b"%010d" % self.sent * (VALUE_BYTES // 10)
                topic = (KEPT, EXPIRING)[self.sent % 2]
                self._producer.produce(topic, value, partition=0, on_delivery=self._on_delivery)
                self.sent += 1
            self._producer.poll(0 if len(self._producer) < 200 else 0.005)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(60)


class Passing:
    """A topic that is made, filled, deleted, and made again under its name, between the kills."""

    NAME = "passing"

    def __init__(self, node: TierlogNode) -> None:
        self._node = node
        self._exists = False

    def turn(self, records: int) -> None:
        """Make and fill it, or delete it."""
        if self._exists:
            admin = AdminClient({"bootstrap.servers": self._node.bootstrap})
            # The client publishes this without all of its types.
            for deleted in admin.delete_topics([self.NAME]).values():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                deleted.result(30)
        else:
            client = CLIENTS["confluent-kafka"]
            client.create_topic(self._node.bootstrap, self.NAME, TIERED)
            values = (b"%010d" % each * (VALUE_BYTES // 10) for each in range(records))
            assert client.produce(self._node.bootstrap, self.NAME, values) == records
        self._exists = not self._exists

    def end(self) -> None:
        """Delete it, if it is there."""
        if self._exists:
            self.turn(0)


def kill_again_and_again(node: TierlogNode, sender: Sender, kills: int) -> None:
    chance = random.Random(kills)
    passing = Passing(node)
    for _ in range(kills):
        goal = sender.count + chance.randrange(1, 2_500)

        def has_sent(goal: int = goal) -> bool:
            return sender.count >= goal

        wait_until(has_sent, 60, lambda: f"{sender.errors[:3]}\n{node.log_tail()}")
        # Half of the kills come right after a topic has come or gone.
        if chance.random() < 0.7:
            passing.turn(1_500)
        node.kill()
        node.start()
    passing.end()


def earliest(node: TierlogNode, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none"})
    try:
        low, _ = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), 30)
        return low
    finally:
        consumer.close()


def check_promises(node: TierlogNode, sender: Sender) -> None:
    """Everything acknowledged can be read, or has gone by the rule."""
    for topic, promised in sender.acknowledged.items():
        start, end = earliest(node, topic), max(promised) + 1
        if topic == KEPT:
            assert start == 0
        found = read(node.bootstrap, topic, end - start, start=start, timeout_s=120)
        assert [offset for offset, _ in found] == list(range(start, end))
        assert all(promised[offset] == value for offset, value in found)
        numbers = [int(value[:10]) for _, value in found]
        assert numbers == sorted(set(numbers)), "twice, or out of order"


def check_retention(node: TierlogNode, sender: Sender) -> None:
    """What may expire does, once a slow store has taken what was still to be copied; no more."""

    def kept_bytes() -> int:
        end = max(sender.acknowledged[EXPIRING]) + 1
        return (end - earliest(node, EXPIRING)) * VALUE_BYTES

    wait_until(
        lambda: kept_bytes() < RETENTION_BYTES + 4 * SEGMENT_BYTES,
        120,
        lambda: f"{kept_bytes()} bytes are kept\n{node.log_tail()}",
    )
    assert kept_bytes() > RETENTION_BYTES - SEGMENT_BYTES, "more has expired than may"


def remote_trouble(node: TierlogNode) -> str:
    """What `tierlog tier verify` and a look for orphans find; empty if nothing."""
    scrub = tier(node, "scrub", "--bootstrap", node.bootstrap, "--json", "--unknown-partitions")
    verify = tier(node, "verify", "--json")
    if scrub.code == 0 and verify.code == 0 and Passing.NAME not in tier(node, "ls").output:
        return ""
    return scrub.output + scrub.errors + verify.output + verify.errors


def story(tmp_path: Path, properties: dict[str, str], kills: int) -> None:
    with TierlogNode(tmp_path / "node", properties=PROPERTIES | properties) as node:
        client = CLIENTS["confluent-kafka"]
        client.create_topic(node.bootstrap, KEPT, TIERED)
        expires = {"retention.bytes": str(RETENTION_BYTES)}
        client.create_topic(node.bootstrap, EXPIRING, TIERED | expires)
        sender = Sender(node.bootstrap)
        try:
            kill_again_and_again(node, sender, kills)
        finally:
            sender.stop()
        assert sender.errors == []
        assert sender.count == sender.sent
        wait_until(lambda: not remote_trouble(node), 120, partial(remote_trouble, node))
        check_promises(node, sender)
        check_retention(node, sender)
        assert "Traceback" not in node.output


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_promise_is_broken_and_nothing_is_left_on_a_file_tier(tmp_path: Path) -> None:
    story(tmp_path, {}, KILLS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_promise_is_broken_and_nothing_is_left_on_s3(tmp_path: Path) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(ObjectStore(tmp_path))
        store.start()
        story(tmp_path, store.properties, max(KILLS // 3, 2))
