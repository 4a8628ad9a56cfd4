"""A commit of offsets before its group checks it: errors per partition, and the batch to write.

A request may name 20,000 partitions. The slow part does not need the group and is done in steps;
then the group checks the whole commit at once, and the batch is appended.
"""

from collections.abc import Generator
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.record.builder import RecordBatchBuilder
from ..group_records import OffsetEntry, OffsetKey, offset_record
from ..offsets import CommitRequest, OffsetsProducer, committed_offset, utf16_length


class PreparedCommit(NamedTuple):
    """A commit that its group has not checked yet."""

    request: CommitRequest
    errors: list[ErrorCode]
    """One per partition, in order."""
    entries: list[OffsetEntry]
    """The offsets to write, for the partitions without an error."""
    batch: bytearray
    """Their records, part of the producer's transaction if there is a producer."""


def prepare_commit(
    request: CommitRequest, metadata_max_bytes: int, now_ms: int
) -> Generator[None, None, PreparedCommit]:
    """Build the records of a commit, with a pause after each."""
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
    """A builder for a `__consumer_offsets` batch, transactional if there is a producer."""
    if producer is None:
        return RecordBatchBuilder()
    return RecordBatchBuilder(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        is_transactional=True,
    )
