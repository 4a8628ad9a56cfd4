"""Turns a closed local segment into what is copied: its metadata and its files' content.

The indexes are checked first, and rebuilt from the log if they are inconsistent: an index uploaded
corrupt would stay corrupt (KAFKA-15401). A segment without a producer snapshot, as in logs from
before Kafka 2.8, gets an empty one. A segment whose leader epochs are unknown is not copied at
all, because no read could ever find it (KAFKA-20961).

Only `segment_facts` touches the log, on the event loop. The rest reads immutable files and may run
in any thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.layout import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    OFFSET_INDEX_ENTRY,
    OFFSET_LENGTH_DELTA_AND_MAX_TIMESTAMP,
    TIME_INDEX_ENTRY,
)
from ...storage.files import FileRegion, Files
from ...storage.log.unified_log import UnifiedLog
from ...storage.producer.producer_snapshot import encode_snapshot
from ...storage.remote.remote_segment import RemoteLogSegmentId, RemoteLogSegmentMetadata
from ...storage.segment.index import CorruptIndexError
from ...storage.segment.log_segment import LogSegment
from ..reading.remote_batches import CorruptSegmentError, are_intact
from ..remote_storage import LogSegmentData

_PIECE_BYTES = 1 << 20


class Attempt(NamedTuple):
    """A copy attempt: its segment id, broker and start time."""

    segment_id: RemoteLogSegmentId
    broker_id: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A snapshot of everything needed to copy a local segment."""

    base_offset: int
    end_offset: int
    """Inclusive."""
    max_timestamp_ms: int
    log: FileRegion
    index_interval_bytes: int
    offset_index_path: str | None
    """None if a local index is corrupt or missing."""
    time_index_path: str | None
    transaction_index_path: str | None
    """None if no aborted transaction ends in the segment."""
    producer_snapshot_path: str | None
    segment_epochs: tuple[tuple[int, int], ...]
    epochs_up_to_end: tuple[tuple[int, int], ...]


def segment_facts(log: UnifiedLog, segment: LogSegment) -> SegmentFacts:
    """Collect a closed segment's facts. Raises KafkaError if it must not be copied."""
    end_offset = log.end_offset_of(segment) - 1
    epochs = log.leader_epochs.entries_in_range(segment.base_offset, end_offset + 1)
    if not epochs:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The leader epochs of segment {segment.base_offset} of {log.topic_partition} are "
            "unknown, so it cannot be copied to the remote tier",
        )
    indexes_are_sound = _indexes_are_sound(segment)
    txn_index = segment.txn_index
    # Raises CorruptIndexError if the index is corrupt: only log recovery can rebuild it, and
    # without it aborted records would be visible.
    txn_index.sanity_check()
    return SegmentFacts(
        segment.base_offset,
        end_offset,
        segment.largest_timestamp,
        segment.region(0, segment.size),
        log.config.index_interval_bytes,
        segment.offset_index.path if indexes_are_sound else None,
        segment.time_index.path if indexes_are_sound else None,
        None if txn_index.is_empty else txn_index.path,
        log.producers.snapshot_file(end_offset + 1),
        tuple((entry.epoch, entry.start_offset) for entry in epochs),
        tuple(
            (entry.epoch, entry.start_offset)
            for entry in log.leader_epochs.entries_up_to(end_offset + 1)
        ),
    )


def _indexes_are_sound(segment: LogSegment) -> bool:
    try:
        segment.offset_index.sanity_check()
        segment.time_index.sanity_check()
    except CorruptIndexError:
        return False
    return segment.offset_index.file_exists and segment.time_index.file_exists


def segment_metadata(facts: SegmentFacts, attempt: Attempt) -> RemoteLogSegmentMetadata:
    """The metadata of a copy about to start. Raises KafkaError(INVALID_RECORD)."""
    return RemoteLogSegmentMetadata(
        segment_id=attempt.segment_id,
        start_offset=facts.base_offset,
        end_offset=facts.end_offset,
        max_timestamp_ms=facts.max_timestamp_ms,
        broker_id=attempt.broker_id,
        event_timestamp_ms=attempt.now_ms,
        segment_size_bytes=facts.log.nbytes,
        segment_leader_epochs=facts.segment_epochs,
        txn_index_empty=facts.transaction_index_path is None,
    )


def segment_data(files: Files, facts: SegmentFacts) -> LogSegmentData:
    """Read a segment's auxiliary files, or rebuild unsound indexes from its log; blocks.

    Raises OSError, CorruptIndexError.
    """
    if facts.offset_index_path is None or facts.time_index_path is None:
        offset_index, time_index = rebuilt_indexes(facts)
    else:
        offset_index = files.read(facts.offset_index_path)
        time_index = files.read(facts.time_index_path)
    transactions, snapshot = facts.transaction_index_path, facts.producer_snapshot_path
    return LogSegmentData(
        log_segment=facts.log,
        offset_index=offset_index,
        time_index=time_index,
        transaction_index=None if transactions is None else files.read(transactions),
        producer_snapshot=encode_snapshot(()) if snapshot is None else files.read(snapshot),
        leader_epoch_index=epoch_checkpoint(facts.epochs_up_to_end),
    )


def check_batches(facts: SegmentFacts) -> None:
    """Read a whole segment and check each batch; blocks. Raises CorruptSegmentError, OSError."""
    position, first_offset = 0, facts.base_offset
    while position < facts.log.nbytes:
        rest = facts.log.nbytes - position
        piece = memoryview(facts.log.slice(position, min(_PIECE_BYTES, rest)).read())
        size = _size_of_whole_batches(piece)
        if size == 0 and LOG_OVERHEAD <= len(piece) < rest:
            # One batch, larger than a piece.
            batch_size = min(
                LOG_OVERHEAD + max(OFFSET_LENGTH_DELTA_AND_MAX_TIMESTAMP.unpack_from(piece)[1], 0),
                rest,
            )
            piece = memoryview(facts.log.slice(position, batch_size).read())
            size = _size_of_whole_batches(piece)
        if size == 0 or not are_intact(piece[:size], first_offset, facts.end_offset):
            raise CorruptSegmentError(f"at or after position {position}")
        position += size


def _size_of_whole_batches(piece: memoryview) -> int:
    position = 0
    while position + BATCH_OVERHEAD <= len(piece):
        length = OFFSET_LENGTH_DELTA_AND_MAX_TIMESTAMP.unpack_from(piece, position)[1]
        end = position + LOG_OVERHEAD + length
        if length < BATCH_OVERHEAD - LOG_OVERHEAD or end > len(piece):
            break
        position = end
    return position


def epoch_checkpoint(epochs: tuple[tuple[int, int], ...]) -> bytes:
    """An epoch history in the format of the file `leader-epoch-checkpoint`."""
    lines = ["0", str(len(epochs)), *(f"{epoch} {offset}" for epoch, offset in epochs)]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def rebuilt_indexes(facts: SegmentFacts) -> tuple[bytes, bytes]:
    """The offset and time indexes that appending the segment's batches would have written."""
    offsets, times = bytearray(), bytearray()
    known_timestamp, known_offset, indexed_timestamp = -1, facts.base_offset, -1
    bytes_since_entry = 0
    for position, size, last_offset, max_timestamp in _walk(facts.log):
        relative = last_offset - facts.base_offset
        if max_timestamp > known_timestamp:
            known_timestamp, known_offset = max_timestamp, last_offset
        if bytes_since_entry > facts.index_interval_bytes:
            offsets += OFFSET_INDEX_ENTRY.pack(relative, position)
            if known_timestamp > indexed_timestamp:
                times += TIME_INDEX_ENTRY.pack(known_timestamp, known_offset - facts.base_offset)
                indexed_timestamp = known_timestamp
            bytes_since_entry = 0
        bytes_since_entry += size
    if known_timestamp > indexed_timestamp:
        times += TIME_INDEX_ENTRY.pack(known_timestamp, known_offset - facts.base_offset)
    return bytes(offsets), bytes(times)


def _walk(log: FileRegion) -> Iterator[tuple[int, int, int, int]]:
    """Position, size, last offset and largest timestamp of each batch."""
    position = piece_start = 0
    piece = b""
    while position + BATCH_OVERHEAD <= log.nbytes:
        if position + BATCH_OVERHEAD > piece_start + len(piece):
            piece_start = position
            piece = log.slice(position, min(_PIECE_BYTES, log.nbytes - position)).read()
        base_offset, length, delta, timestamp = OFFSET_LENGTH_DELTA_AND_MAX_TIMESTAMP.unpack_from(
            piece, position - piece_start
        )
        size = LOG_OVERHEAD + length
        if size < BATCH_OVERHEAD:
            raise CorruptIndexError(f"The segment is damaged at position {position}")
        yield position, size, base_offset + delta, timestamp
        position += size
