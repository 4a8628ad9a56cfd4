"""A commit of offsets before its group is asked: an error a partition, and the batch to write.

A request may name 20,000 partitions. What takes long about it needs nothing of the group, and is
made in steps; then the group decides about all of it at once, and the batch is appended.
"""

from collections.abc import Generator
from typing import NamedTuple

from ....clients.errors import ErrorCode
from ....clients.record.builder import RecordBatchBuilder
from ..group_records import OffsetEntry, OffsetKey, offset_record
from ..offsets import CommitRequest, OffsetsProducer, committed_offset, utf16_length


class PreparedCommit(NamedTuple):
    """A commit that its group has not been asked about."""

    request: CommitRequest
    errors: list[ErrorCode]
    """One a partition, in order."""
    entries: list[OffsetEntry]
    """What is to be written for those without one."""
    batch: bytearray
    """Its records, a part of the producer's transaction where there is a producer."""


def prepare_commit(
    request: CommitRequest, metadata_max_bytes: int, now_ms: int
) -> Generator[None, None, PreparedCommit]:
    """Make the records of a commit, with a pause after each."""
    errors: list[ErrorCode] = []
    entries: list[OffsetEntry] = []
    builder = batch_builder(request.producer)
    for offset in request.offsets:
        error = offset.error
        if not error and utf16_length(offset.metadata or "") > metadata_max_bytes:
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        errors.append(error)
        if not error:
            key = OffsetKey(request.group_id, offset.topic, offset.partition)
            committed = committed_offset(offset, request.retention_ms, now_ms)
            entries.append(OffsetEntry(key, committed))
            builder.append(now_ms, *offset_record(key, committed))
        yield
    return PreparedCommit(request, errors, entries, builder.build())


def batch_builder(producer: OffsetsProducer | None) -> RecordBatchBuilder:
    """For a batch of `__consumer_offsets`; with a producer, of its transaction."""
    if producer is None:
        return RecordBatchBuilder()
    return RecordBatchBuilder(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        is_transactional=True,
    )
