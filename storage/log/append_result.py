"""The result of an append, from which the broker fills in a Produce response."""

from dataclasses import dataclass
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import NO_TIMESTAMP, RecordBatch
from ..producer.producer_entry import BatchMetadata


class RecordError(NamedTuple):
    """Why a record is invalid (KIP-467); `batch_index` is its index in the batch, from 0."""

    batch_index: int
    message: str


class RecordValidationError(KafkaError):
    """A batch was rejected because it has invalid records; none of its records was appended."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors

    def __reduce__(
        self,
    ) -> tuple[type["RecordValidationError"], tuple[ErrorCode, str, tuple[RecordError, ...]]]:
        return RecordValidationError, (self.code, self.message, self.record_errors)


@dataclass(slots=True)
class LogAppendInfo:
    """The offsets and timestamps of an append; for a duplicate, those of the original batch."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    """The largest timestamp appended, in milliseconds; -1 if no record has one."""
    log_append_time_ms: int
    """When the leader appended, if the topic uses LogAppendTime; otherwise -1."""
    log_start_offset: int
    num_bytes: int
    is_duplicate: bool = False
    record_errors: tuple[RecordError, ...] = ()


def appended_info(
    batches: list[RecordBatch], log_append_time_ms: int, log_start_offset: int
) -> LogAppendInfo:
    """The result for batches that were appended with their final offsets."""
    if len(batches) == 1:
        batch = batches[0]
        return LogAppendInfo(
            batch.base_offset,
            batch.last_offset,
            batch.max_timestamp,
            log_append_time_ms,
            log_start_offset,
            batch.size_in_bytes,
        )
    if not batches:
        return LogAppendInfo(-1, -1, NO_TIMESTAMP, log_append_time_ms, log_start_offset, 0)
    return LogAppendInfo(
        batches[0].base_offset,
        batches[-1].last_offset,
        max(batch.max_timestamp for batch in batches),
        log_append_time_ms,
        log_start_offset,
        sum(batch.size_in_bytes for batch in batches),
    )


def duplicate_info(duplicate: BatchMetadata, log_start_offset: int) -> LogAppendInfo:
    """The result for a duplicate batch: the offsets and timestamp of the original."""
    return LogAppendInfo(
        duplicate.first_offset,
        duplicate.last_offset,
        duplicate.timestamp,
        duplicate.timestamp,
        log_start_offset,
        0,
        is_duplicate=True,
    )
