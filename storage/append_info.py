"""What an append answers: the values that the layers above put into a Produce response."""

from dataclasses import dataclass
from typing import NamedTuple

from ..clients.errors import ErrorCode, KafkaError


class RecordError(NamedTuple):
    """Why one record of a refused batch is at fault (KIP-467); `batch_index` counts from 0."""

    batch_index: int
    message: str


class RecordValidationError(KafkaError):
    """A batch was refused for what some of its records hold; nothing of it was appended."""

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
    """Where an append went, or where the batch that it repeats had gone before."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    """The largest timestamp appended, in milliseconds; -1 if no record carries one."""
    log_append_time_ms: int
    """When the leader appended, if it gives the timestamps (LogAppendTime); else -1."""
    log_start_offset: int
    num_bytes: int
    is_duplicate: bool = False
    record_errors: tuple[RecordError, ...] = ()
