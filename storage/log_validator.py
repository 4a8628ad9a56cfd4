"""What a leader demands of a batch before it gives it an offset (Kafka's `LogValidator`).

A client's append is one batch of message format 2 that starts at offset 0, matches its CRC, counts
its records rightly and is no control batch (P1); it is no larger than the topic allows (P2). Then
the leader stamps base offset and leader epoch in place: both lie outside the CRC, and the bytes are
never copied.

Records are opened only where a rule cannot be decided from the header: a compacted topic demands
keys, and a limit on the past needs every timestamp (P3). A topic with its own compression.type
re-compresses batches that came with another codec, and LogAppendTime replaces the timestamps; both
change bytes under the CRC. The largest timestamp of a header is believed, since its CRC held.
"""

from dataclasses import dataclass
from struct import Struct

from ..clients.errors import ErrorCode, KafkaError
from ..clients.record.batch import (
    BATCH_OVERHEAD,
    COMPRESSION_CODEC_MASK,
    CONTROL_BIT,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    RecordBatch,
    batches,
    stamp_crc,
    stamp_log_append_time,
)
from ..clients.record.builder import rebuild_batch
from ..clients.record.compression import CompressionType
from .append_info import RecordError, RecordValidationError
from .config import INT64_MAX, LogConfig
from .producer_entry import AppendOrigin

# Python 3.11 looks a member of an enum up in 0.1 µs; here that happens for every batch.
_CLIENT = AppendOrigin.CLIENT
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_ATTRIBUTES_POSITION = 21
_CONTROL_OR_COMPRESSED = CONTROL_BIT | COMPRESSION_CODEC_MASK
"""Attributes of batches that clients may not send, or that may have a codec that nobody knows."""
_NO_CODEC_OF_ITS_OWN = "producer"


@dataclass(slots=True)
class AppendContext:
    """What the leader knows and the batch does not."""

    config: LogConfig
    origin: AppendOrigin
    leader_epoch: int
    now_ms: int


@dataclass(slots=True)
class Appendable:
    """Batches with their final bytes, one after the other in `buffer`."""

    buffer: memoryview
    batches: list[RecordBatch]
    log_append_time_ms: int


def validate(records: memoryview, context: AppendContext) -> list[RecordBatch]:
    """The batches in `records`, after every check that needs no knowledge of the log.

    Raises KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, or for what single
    records hold RecordValidationError.
    """
    if context.origin is _CLIENT:
        return [_client_batch(records, context)]
    found = list(batches(records))
    if not found:
        raise _no_batch()
    for batch in found:
        check_size(batch.size_in_bytes, context)
        batch.ensure_valid()
    return found


def _client_batch(records: memoryview, context: AppendContext) -> RecordBatch:
    """The one batch of a client's append; for nearly every one a look at its header will do."""
    config = context.config
    size = len(records)
    if size >= BATCH_OVERHEAD and _INT32.unpack_from(records, 8)[0] + LOG_OVERHEAD == size:
        batch = RecordBatch(records)
    else:
        batch = _only_batch(records)
    if batch.base_offset != 0:
        raise _invalid(
            f"A produced batch must start at offset 0, not {batch.base_offset}: "
            "offsets are given by the leader."
        )
    if batch.size_in_bytes > config.max_message_bytes:
        check_size(batch.size_in_bytes, context)
    batch.ensure_valid()
    count = batch.record_count
    if (
        count <= 0
        or batch.last_offset_delta + 1 != count
        or (batch.base_sequence < 0 and batch.producer_id >= 0)
        or batch.attributes & _CONTROL_OR_COMPRESSED
    ):
        _check_client_batch(batch)
    if (
        batch.max_timestamp > context.now_ms + config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms < INT64_MAX
        or "compact" in config.cleanup_policy
    ):
        _check_records(batch, context)
    return batch


def _only_batch(records: memoryview) -> RecordBatch:
    """The batch in front of some bytes that are not one."""
    found = list(batches(records))
    if not found:
        raise _no_batch()
    if len(found) > 1:
        raise _invalid("A partition takes exactly one record batch in a Produce request.")
    return found[0]


def check_size(size: int, context: AppendContext) -> None:
    """Raise MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE for a batch that cannot be stored (P2)."""
    limit = context.config.max_message_bytes
    if size > limit and context.origin is not AppendOrigin.RAFT_LEADER:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch has {size} bytes, more than max.message.bytes allows ({limit}).",
        )


def _check_client_batch(batch: RecordBatch) -> None:
    count = batch.record_count
    if batch.last_offset_delta < 0 or count <= 0:
        raise _invalid(f"A batch of {count} records up to offset delta "
                       f"{batch.last_offset_delta} is impossible.")  # fmt: skip
    if batch.last_offset_delta + 1 != count:
        raise _invalid(
            f"A batch claims {count} records but covers {batch.last_offset_delta + 1} offsets."
        )
    if batch.has_producer_id and batch.base_sequence < 0:
        raise _invalid(
            f"A batch of producer {batch.producer_id} has the sequence number "
            f"{batch.base_sequence}."
        )
    if batch.is_control:
        raise _invalid("Clients are not allowed to write control records.")
    _ = batch.compression_type  # refuses a codec number that names nothing


def _check_records(batch: RecordBatch, context: AppendContext) -> None:
    """Keys and timestamps (P3). Opens the batch only when it must."""
    config = context.config
    checks_time = config.message_timestamp_type == TimestampTypeName.CREATE_TIME
    latest = context.now_ms + config.message_timestamp_after_max_ms
    earliest = (
        context.now_ms - config.message_timestamp_before_max_ms
        if config.message_timestamp_before_max_ms < INT64_MAX
        else None
    )
    is_too_late = checks_time and batch.max_timestamp > latest
    if not (config.is_compacted or is_too_late or (checks_time and earliest is not None)):
        return
    missing_keys: list[RecordError] = []
    bad_times: list[RecordError] = []
    for index, record in enumerate(batch.records()):
        if config.is_compacted and record.key is None:
            missing_keys.append(
                RecordError(index, "Compacted topic cannot accept message without key.")
            )
        timestamp = record.timestamp
        if not checks_time or timestamp == NO_TIMESTAMP:
            continue
        if timestamp > latest or (earliest is not None and timestamp < earliest):
            bad_times.append(RecordError(index, f"Timestamp {timestamp} is out of range."))
    if missing_keys:
        raise RecordValidationError(
            ErrorCode.INVALID_RECORD,
            "One or more records have been rejected: a compacted topic needs keys.",
            (*missing_keys, *bad_times),
        )
    if bad_times or is_too_late:
        floor = "" if earliest is None else f"{earliest}"
        raise RecordValidationError(
            ErrorCode.INVALID_TIMESTAMP,
            f"Record timestamps must lie within [{floor}, {latest}].",
            tuple(bad_times),
        )


class TimestampTypeName:
    """The two values of message.timestamp.type."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


def assign_offsets(
    records: memoryview, found: list[RecordBatch], first_offset: int, context: AppendContext
) -> Appendable:
    """Give the validated batches of `records` their offsets, in place where their bytes stay."""
    config = context.config
    # What follows a client's batch in its buffer is cut, as Kafka does.
    if len(found) == 1:
        buffer = found[0].view
    else:
        buffer = records[: sum(batch.size_in_bytes for batch in found)]
    if config.compression_type != _NO_CODEC_OF_ITS_OWN:
        rewritten = [_recompressed(batch, context) for batch in found]
        if any(new is not old for new, old in zip(rewritten, found, strict=True)):
            buffer = memoryview(bytearray().join(batch.view for batch in rewritten))
            found = list(batches(buffer))
    uses_append_time = config.message_timestamp_type == TimestampTypeName.LOG_APPEND_TIME
    offset = first_offset
    for batch in found:
        if uses_append_time or batch.attributes & TIMESTAMP_TYPE_BIT:
            _stamp_time(batch, context.now_ms if uses_append_time else None)
        batch.assign(offset, context.leader_epoch)
        offset = batch.last_offset + 1
    return Appendable(buffer, found, context.now_ms if uses_append_time else NO_TIMESTAMP)


def _stamp_time(batch: RecordBatch, append_time_ms: int | None) -> None:
    if append_time_ms is not None:
        stamp_log_append_time(batch.view, 0, append_time_ms)
        batch.attributes |= TIMESTAMP_TYPE_BIT
        batch.max_timestamp = append_time_ms
    else:
        # A producer cannot claim the leader's clock on a topic that keeps the producers' time.
        batch.attributes &= ~TIMESTAMP_TYPE_BIT
        _INT16.pack_into(batch.view, _ATTRIBUTES_POSITION, batch.attributes)
        stamp_crc(batch.view, 0, batch.size_in_bytes)


def _recompressed(batch: RecordBatch, context: AppendContext) -> RecordBatch:
    """The batch with the topic's codec, itself if that is the codec it has."""
    name = context.config.compression_type
    if batch.is_control:
        return batch
    target = CompressionType.NONE if name == "uncompressed" else CompressionType.from_name(name)
    if target is batch.compression_type:
        return batch
    rebuilt = RecordBatch(memoryview(rebuild_batch(batch, batch.records(), compression=target)))
    check_size(rebuilt.size_in_bytes, context)
    return rebuilt


def _no_batch() -> KafkaError:
    return _invalid("An append must hold at least one record batch.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def too_large_for_segment(size: int, config: LogConfig) -> KafkaError:
    """Why a batch that no segment could take is refused."""
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"The record batch has {size} bytes, more than a segment takes ({config.segment_bytes}).",
    )
