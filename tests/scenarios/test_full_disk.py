"""The disk refuses to take more: it is said in plain words, and nothing acknowledged is lost.

A limit on the size of files stands in for the full disk: a test may set it on a running process,
and to the broker both are an error of the same calls.
"""

import resource
from pathlib import Path

import confluent_kafka
import pytest

from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.waiting import wait_until

TOPIC = "filling"
LIMIT_BYTES = 4 * 1024 * 1024
# Indexes are made at their full size, and must stay far from the limit.
PROPERTIES = {"log.index.size.max.bytes": "65536"}


def value_of(index: int) -> bytes:
    return b"%08d" % index * 128


def produce_until_refused(bootstrap: str) -> list[tuple[int, bytes]]:
    """Send more than the disk takes; offset and value of all that was acknowledged."""
    acknowledged: list[tuple[int, bytes]] = []
    refused: list[object] = []

    def on_delivery(error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            refused.append(error)
            return
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        acknowledged.append((offset, value))

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "message.timeout.ms": 3_000,
            "log_level": 0,
        }
    )
    for index in range(2 * LIMIT_BYTES // 1024):
        producer.produce(TOPIC, value_of(index), on_delivery=on_delivery)
        producer.poll(0)
    producer.flush(30)
    assert refused, "everything fitted on the disk"
    return acknowledged


@pytest.mark.slow
def test_a_full_disk_ends_the_broker_with_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    client = CLIENTS["confluent-kafka"]
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        client.create_topic(broker.bootstrap, TOPIC, {})
        resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
        acknowledged = produce_until_refused(broker.bootstrap)
        assert len(acknowledged) > LIMIT_BYTES // 2048
        wait_until(lambda: broker.process.poll() is not None, 20, "the broker goes on")
        assert broker.process.returncode == 1
        told = broker.log.read_text()
    assert "offline from now on: File too large" in told
    assert told.splitlines()[-1] == "tierlog: Every log directory is offline."
    assert "Traceback" not in told

    # Somebody has made room.
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        read = client.read(broker.bootstrap, TOPIC, "after")
        found = dict(next(read) for _ in acknowledged)
        assert client.produce(broker.bootstrap, TOPIC, [b"there is room again"]) == 1
        assert broker.stop() == 0
    assert [found.get(offset) for offset, _ in acknowledged] == [value for _, value in acknowledged]
    assert "Traceback" not in broker.log.read_text()
