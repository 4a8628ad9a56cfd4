"""What is shipped of a segment is what its log says, whatever has happened to its files."""

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.storage.producer.producer_snapshot import decode_snapshot
from tierlog.storage.remote.remote_segment import RemoteLogSegmentId
from tierlog.storage.segment.index import CorruptIndexError
from tierlog.storage.segment.log_segment import LogSegment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import MemoryTier
from tierlog.tests.tiering.segments import segment_metadata as made_up_metadata
from tierlog.tests.tiering.tiered_broker import PARTITION, TieredBroker
from tierlog.tiering.task.segment_parts import (
    Attempt,
    rebuilt_indexes,
    segment_data,
    segment_facts,
    segment_metadata,
)

ATTEMPT = Attempt(
    RemoteLogSegmentId(PARTITION, made_up_metadata(1).id), broker_id=3, now_ms=1_700_000_000_000
)


async def written(loop: SimulatedLoop, records: int = 50) -> tuple[TieredBroker, LogSegment]:
    """A log of a segment with as many records, and an active one."""
    broker = TieredBroker(loop, MemoryTier(), SharedTopic())
    for number in range(records):
        broker.append(1, per_segment=records, timestamp=1000 + (number * 7) % 40)
    broker.epoch = 2
    broker.append(1, per_segment=records)
    return broker, broker.log.local.segments.first


async def test_the_metadata_says_what_is_in_the_segment(loop: SimulatedLoop) -> None:
    broker, segment = await written(loop)
    metadata = segment_metadata(segment_facts(broker.log, segment), ATTEMPT)
    assert (metadata.start_offset, metadata.end_offset) == (0, 49)
    assert metadata.segment_leader_epochs == ((0, 0),)
    assert metadata.segment_size_bytes == segment.size
    assert metadata.max_timestamp_ms == 1039
    assert metadata.txn_index_empty
    assert metadata.broker_id == 3


async def test_all_parts_are_kafkas_files(loop: SimulatedLoop) -> None:
    broker, segment = await written(loop)
    data = segment_data(broker.files, segment_facts(broker.log, segment))
    assert data.offset_index == broker.files.read(segment.offset_index.path)
    assert data.time_index == broker.files.read(segment.time_index.path)
    assert data.leader_epoch_index == b"0\n1\n0 0\n"
    assert data.transaction_index is None
    assert decode_snapshot(data.producer_snapshot) == []
    assert len(data.log_segment.read()) == segment.size


@pytest.mark.parametrize("records", [1, 2, 50])
async def test_rebuilt_indexes_are_those_that_appending_wrote(
    loop: SimulatedLoop, records: int
) -> None:
    broker, segment = await written(loop, records)
    facts = segment_facts(broker.log, segment)
    written_by_appending = (
        broker.files.read(segment.offset_index.path),
        broker.files.read(segment.time_index.path),
    )
    assert rebuilt_indexes(facts) == written_by_appending


async def test_a_broken_index_is_rebuilt_before_it_is_shipped(loop: SimulatedLoop) -> None:
    broker, segment = await written(loop)
    good = broker.files.read(segment.offset_index.path)
    path = segment.offset_index.path
    segment.offset_index.close()
    broker.files.atomic_replace(path, good + b"xyz")
    facts = segment_facts(broker.log, segment)
    assert facts.offset_index_path is None
    assert segment_data(broker.files, facts).offset_index == good


async def test_a_segment_without_a_producer_snapshot_gets_an_empty_one(loop: SimulatedLoop) -> None:
    broker, segment = await written(loop)
    for offset in list(broker.log.producers.snapshot_offsets):
        broker.log.producers.delete_snapshot_at(offset)
    facts = segment_facts(broker.log, segment)
    assert facts.producer_snapshot_path is None
    assert decode_snapshot(segment_data(broker.files, facts).producer_snapshot) == []


async def test_a_segment_whose_epochs_are_unknown_is_not_shipped(loop: SimulatedLoop) -> None:
    broker, segment = await written(loop)
    broker.log.leader_epochs.clear()
    with pytest.raises(KafkaError, match="leader epochs"):
        segment_facts(broker.log, segment)


async def test_a_segment_with_a_broken_transaction_index_is_not_shipped(
    loop: SimulatedLoop,
) -> None:
    broker, segment = await written(loop)
    broker.files.atomic_replace(segment.txn_index.path, b"123")
    segment.txn_index.close()
    with pytest.raises(CorruptIndexError):
        segment_facts(broker.log, segment)
