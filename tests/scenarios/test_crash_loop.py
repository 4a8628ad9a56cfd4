"""kill -9 at random moments, again and again, while a client produces and the tier is filled.

A promise is an acknowledgement: every acknowledged record is there afterwards, at the offset that
was told, in the order in which it was sent; an idempotent producer that lives through all of it
leaves nothing twice. What half-done copies left in the tier is never served.
"""

import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import read
from tierlog.tests.waiting import wait_until

ROUNDS = 20
TOPIC = "beaten"
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1048576",
}
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "remote.log.manager.task.interval.ms": "100",
    "log.initial.task.delay.ms": "50",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}


class Sender:
    """An idempotent producer in a thread, from before the first crash until after the last."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self.errors: list[object] = []
        self.sent = 0
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.size": 16_384,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_delivery(self, error: object, message: confluent_kafka.Message) -> None:
        offset, value = message.offset(), message.value()
        if error is not None or offset is None:
            self.errors.append(error)
            return
        assert isinstance(value, bytes)
        self.acknowledged[offset] = value

    def _run(self) -> None:
        while not self._stopping.is_set():
            # A bounded number is under way, so that each crash hits fresh records.
            if len(self._producer) < 500:
                value = b"%010d" % self.sent * 50
                self._producer.produce(TOPIC, value, partition=0, on_delivery=self._on_delivery)
                self.sent += 1
            self._producer.poll(0 if len(self._producer) < 500 else 0.005)

    def has(self, goal: int) -> bool:
        """Whether as many records are acknowledged."""
        return len(self.acknowledged) >= goal

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(60)


def crashes(node: TierlogNode, sender: Sender, chance: random.Random) -> Iterator[int]:
    """Kill and start the broker, each time after some more records were acknowledged."""
    for number in range(ROUNDS):
        goal = len(sender.acknowledged) + chance.randrange(1, 2_000)
        wait_until(
            partial(sender.has, goal), 60, lambda: f"{sender.errors[:3]}\n{node.output[-2000:]}"
        )
        node.kill()
        node.start()
        yield number


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(seed: int, tmp_path: Path) -> None:
    with TierlogNode(tmp_path, properties=PROPERTIES) as node:
        CLIENTS["confluent-kafka"].create_topic(node.bootstrap, TOPIC, TOPIC_CONFIG)
        sender = Sender(node.bootstrap)
        try:
            rounds = sum(1 for _ in crashes(node, sender, random.Random(seed)))
        finally:
            sender.stop()
        assert rounds == ROUNDS
        assert sender.errors == []
        assert len(sender.acknowledged) == sender.sent

        found = read(node.bootstrap, TOPIC, sender.sent, timeout_s=60)
        assert [offset for offset, _ in found] == list(range(sender.sent))
        assert [int(value[:10]) for _, value in found] == list(range(sender.sent))
        assert all(sender.acknowledged[offset] == value for offset, value in found)
        assert "Traceback" not in node.output
        assert " ERROR " not in node.output
