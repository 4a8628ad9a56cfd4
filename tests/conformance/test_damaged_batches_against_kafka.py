"""A batch that the disk damaged is sent as it is, by Kafka and by us: consumers check it."""

from pathlib import Path

import pytest

from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tierlog.clients.record.batch import batches

from .side_by_side import SideBySide, both_brokers
from .topic_requests import batch, creation, production, wait_for_leader

pytestmark = pytest.mark.recorded

TOPIC = "damaged"


def damage(log: Path) -> None:
    """Flip the last byte of the first batch in a log, under the running broker."""
    with log.open("r+b") as file:
        first = next(batches(log.read_bytes()))
        file.seek(first.size_in_bytes - 1)
        (last,) = file.read(1)
        file.seek(first.size_in_bytes - 1)
        file.write(bytes([last ^ 0xFF]))


def test_a_damaged_batch_leaves_as_it_is(tmp_path: Path) -> None:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=TOPIC, partitions=[partition])
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[topic])
    with both_brokers(tmp_path) as ports, SideBySide(*ports) as both:
        both.same(creation(TOPIC), 7)
        for client in (both.kafka, both.ours):
            wait_for_leader(client, TOPIC)
        for _ in range(3):
            both.same(production(batch(2), topic=TOPIC), 9)
        logs = list(tmp_path.rglob(f"{TOPIC}-0/00000000000000000000.log"))
        assert any("ours" in log.parts for log in logs)
        for log in logs:  # Kafka's is there if it is not played.
            damage(log)
        kafka, ours = both.ask(fetch, 11)
        both.same_of(kafka, ours)
        assert isinstance(ours, FetchResponse)
        records = ours.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert [each.crc_is_valid() for each in batches(records)] == [False, True, True]
        both.same(production(batch(2), topic=TOPIC), 9)
