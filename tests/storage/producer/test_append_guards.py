"""A guard says whether a producer's transaction may still begin (KIP-890, KAFKA-14884)."""

from tierlog.clients.record.batch import RecordBatch
from tierlog.clients.record.builder import build_control_batch
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.storage.files import OsFiles
from tierlog.storage.producer.producer_state import ProducerStateManager

PRODUCER = 7


def marker(offset: int) -> RecordBatch:
    """An abort marker of the producer at an offset."""
    content = build_control_batch(
        EndTransactionMarker(ControlRecordType.ABORT, 0), 0, producer_id=PRODUCER, producer_epoch=1
    )
    content[:8] = offset.to_bytes(8, "big")
    return RecordBatch(memoryview(content))


def test_a_marker_ends_the_attempts_of_its_producer() -> None:
    producers = ProducerStateManager(OsFiles(), "unused")
    guard, others = producers.guards.set(PRODUCER), producers.guards.set(8)
    assert producers.guards.holds(PRODUCER, guard)
    producers.apply(marker(0))
    assert not producers.guards.holds(PRODUCER, guard)
    assert producers.guards.holds(8, others)


def test_a_later_attempt_does_not_revive_an_earlier_one() -> None:
    producers = ProducerStateManager(OsFiles(), "unused")
    early = producers.guards.set(PRODUCER)
    producers.apply(marker(0))
    late = producers.guards.set(PRODUCER)
    assert not producers.guards.holds(PRODUCER, early)
    producers.guards.release(PRODUCER, early)
    assert producers.guards.holds(PRODUCER, late)
    producers.guards.release(PRODUCER, late)
    assert not producers.guards.holds(PRODUCER, late)
