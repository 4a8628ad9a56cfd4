"""Validates batches and assigns their offsets on the leader (Kafka's `LogValidator`).

A client's append must be one batch of message format 2 that starts at offset 0, matches its CRC,
has the right record count, is not a control batch and does not exceed max.message.bytes. The leader
then writes the base offset and leader epoch in place: the CRC covers neither, so no bytes need to
be copied.

Every length in an uncompressed batch is checked (`RecordWalk`, or `KnownShapes` if the batch is
like earlier ones): consumers, the cleaner and the tier must be able to read the log. A compressed
batch is decompressed only if a rule needs its records: a compacted topic requires keys,
message.timestamp.before.max.ms applies to every timestamp, and a topic with its own
compression.type stores another codec. For other compressed batches, only the codec's header is
checked, and that the data is long enough for the records. docs/differences.md lists Kafka's further
checks.

A batch with many records, or one that decompresses to many bytes, would make other requests wait
too long: `client_batch_steps` does the same work with pauses.
"""

from collections.abc import Generator
from dataclasses import dataclass
from struct import Struct

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import (
    COMPRESSION_CODEC_MASK,
    CONTROL_BIT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    RecordBatch,
    batches,
    stamp_crc,
    stamp_log_append_time,
    stamp_max_timestamp,
)
from ...clients.record.builder import rebuild_batch, recompress_batch
from ...clients.record.compression import (
    Buffer,
    CompressionType,
    check_outside,
    decompress_steps,
)
from ...clients.record.layout import (
    ATTRIBUTES_AND_COUNT,
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    LENGTH_MAGIC_ATTRIBUTES_AND_COUNT,
    LOG_OVERHEAD,
)
from ...clients.record.record_shapes import KnownShapes
from ...clients.record.record_walk import SMALLEST_RECORD_BYTES, RecordWalk
from ...clients.runtime.steps import finished
from ..config import INT64_MAX, LogConfig
from ..producer.producer_entry import AppendOrigin
from .append_result import RecordError, RecordValidationError

# Looking up an enum member takes 0.1 µs in Python 3.11, and every batch needs one.
_CLIENT = AppendOrigin.CLIENT
_INT16 = Struct(">h")
_UNUSUAL = CONTROL_BIT | COMPRESSION_CODEC_MASK | TIMESTAMP_TYPE_BIT
"""Attribute bits that need a closer check: forbidden to clients, or a codec that may be unknown."""
_NO_CODEC_OF_ITS_OWN = "producer"
_MANY_RECORDS = 8_192
"""A batch with more records is validated in steps, between which other work is done."""
_WORK_OF_A_BATCH = 64
_BYTES_A_RECORDS_WORK = 512
_KNOWN_SHAPES = KnownShapes()
_RECORD_ERRORS_MAX = 1_000
"""At most this many invalid records of a batch are reported."""


@dataclass(slots=True)
class AppendContext:
    """The inputs of an append other than the records: configuration, leader epoch and time."""

    config: LogConfig
    origin: AppendOrigin
    leader_epoch: int
    now_ms: int
    is_checked: bool = False
    """Whether `client_batch_steps` has already validated the records."""


@dataclass(slots=True)
class Appendable:
    """Batches with their final bytes, one after the other in `buffer`."""

    buffer: memoryview
    batches: list[RecordBatch]
    log_append_time_ms: int


def validate(records: memoryview, context: AppendContext) -> list[RecordBatch]:
    """Make every check that does not depend on the log's state; returns the batches in `records`.

    Raises KafkaError: CORRUPT_MESSAGE, INVALID_RECORD or MESSAGE_TOO_LARGE; for invalid records,
    RecordValidationError.
    """
    if context.origin is _CLIENT:
        return [_client_batch(records, context)]
    record_batches = list(batches(records))
    if not record_batches:
        raise _no_batch()
    for batch in record_batches:
        check_size(batch.size_in_bytes, context)
        batch.ensure_valid()
    return record_batches


def _client_batch(records: memoryview, context: AppendContext) -> RecordBatch:
    """Validate a client's append and return its batch."""
    batch = _outside_checked(records, context)
    if context.is_checked:
        return batch
    if not batch.attributes & COMPRESSION_CODEC_MASK:
        # Nearly every batch ends here.
        first_keyless = _KNOWN_SHAPES.first_keyless(batch)
        agrees_on_time = first_keyless is not None
        if first_keyless is None:
            walk = RecordWalk(batch, batch.view[BATCH_OVERHEAD:])
            walk.finish()
            first_keyless, agrees_on_time = walk.first_keyless, walk.agrees_on_time
            _KNOWN_SHAPES.remember(batch, first_keyless)
        config = context.config
        if (
            (agrees_on_time or config.message_timestamp_type != TimestampTypeName.CREATE_TIME)
            and (first_keyless < 0 or "compact" not in config.cleanup_policy)
            and batch.max_timestamp <= context.now_ms + config.message_timestamp_after_max_ms
            and config.message_timestamp_before_max_ms >= INT64_MAX
            and config.compression_type == _NO_CODEC_OF_ITS_OWN
        ):
            return batch
    # The batch is compressed, breaks a rule, has a wrong max timestamp or needs another codec.
    return finished(_record_steps(batch, context))


def client_batch_steps(
    records: memoryview, context: AppendContext
) -> Generator[None, None, RecordBatch] | None:
    """Check a client's batch with pauses if the checks may take long; otherwise None.

    The generator returns the batch, to be appended with `is_checked`. This function and the
    generator raise KafkaError.
    """
    batch = RecordBatch(records)
    is_long = _opens(batch, context) if batch.is_compressed else batch.record_count > _MANY_RECORDS
    return _client_batch_steps(records, context) if is_long else None


def may_take_long(records: memoryview) -> bool:
    """Whether to call `client_batch_steps`, which returns None for small uncompressed batches."""
    if len(records) < BATCH_OVERHEAD:
        return False
    attributes: int
    count: int
    attributes, count = ATTRIBUTES_AND_COUNT.unpack_from(records)
    return count > _MANY_RECORDS or attributes & COMPRESSION_CODEC_MASK > 0


def plain_work(records: memoryview) -> int:
    """`work_of` a client's batch if it is plain (few records, no attribute bits), otherwise 0.

    A plain batch passes every check that comes before an append, and needs no long check.
    """
    size = len(records)
    if size < BATCH_OVERHEAD:
        return 0
    length: int
    magic: int
    attributes: int
    count: int
    length, magic, attributes, count = LENGTH_MAGIC_ATTRIBUTES_AND_COUNT.unpack_from(records)
    if length + LOG_OVERHEAD != size or magic != 2 or attributes or not 0 < count <= _MANY_RECORDS:
        return 0
    return _WORK_OF_A_BATCH + size // _BYTES_A_RECORDS_WORK + count


def work_of(records: memoryview) -> int:
    """The approximate cost to check and append a batch that needs no long check.

    The unit is one checked record, which takes half a microsecond.
    """
    size = len(records)
    work = _WORK_OF_A_BATCH + size // _BYTES_A_RECORDS_WORK
    if size >= BATCH_OVERHEAD:
        attributes: int
        count: int
        attributes, count = ATTRIBUTES_AND_COUNT.unpack_from(records)
        if not attributes & COMPRESSION_CODEC_MASK:
            work += min(max(count, 0), _MANY_RECORDS)
    return work


def _client_batch_steps(
    records: memoryview, context: AppendContext
) -> Generator[None, None, RecordBatch]:
    return (yield from _record_steps(_outside_checked(records, context), context))


def _outside_checked(records: memoryview, context: AppendContext) -> RecordBatch:
    """Return the only batch in `records`, after checking its header and CRC."""
    try:
        batch = RecordBatch(records)
    except KafkaError:
        batch = _only_batch(records)
    if batch.size_in_bytes != len(records):
        batch = _only_batch(records)
    if batch.base_offset != 0:
        raise _invalid(
            f"A produced batch must start at offset 0, not {batch.base_offset}: "
            "the leader assigns the offsets."
        )
    if batch.size_in_bytes > context.config.max_message_bytes:
        check_size(batch.size_in_bytes, context)
    batch.ensure_valid()
    count = batch.record_count
    if (
        count <= 0
        or batch.last_offset_delta + 1 != count
        or (batch.base_sequence < 0 and batch.producer_id >= 0)
        or batch.attributes & _UNUSUAL
    ):
        _check_client_batch(batch, context.config)
    return batch


def _only_batch(records: memoryview) -> RecordBatch:
    """The only batch in `records`; bytes that are not a batch may follow it."""
    record_batches = list(batches(records))
    if not record_batches:
        raise _no_batch()
    if len(record_batches) > 1:
        raise _invalid("A Produce request must hold exactly one record batch for each partition.")
    return record_batches[0]


def check_size(size: int, context: AppendContext) -> None:
    """Raise MESSAGE_TOO_LARGE for a batch that is too large for the topic."""
    limit = context.config.max_message_bytes
    if size > limit and context.origin is not AppendOrigin.RAFT_LEADER:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch has {size} bytes, which exceeds max.message.bytes ({limit}).",
        )


def _check_client_batch(batch: RecordBatch, config: LogConfig) -> None:
    count = batch.record_count
    if batch.last_offset_delta < 0 or count <= 0:
        raise _invalid(f"A record batch of {count} records cannot have the last offset delta "
            f"{batch.last_offset_delta}.")  # fmt: skip
    if batch.last_offset_delta + 1 != count:
        raise _invalid(
            f"A record batch claims {count} records but covers {batch.last_offset_delta + 1} "
            "offsets."
        )
    if batch.has_producer_id and batch.base_sequence < 0:
        raise _invalid(
            f"Invalid sequence number {batch.base_sequence} in record batch with producerId "
            f"{batch.producer_id}"
        )
    if batch.is_control:
        raise _invalid("Clients are not allowed to write control records.")
    _ = batch.compression_type  # raises for an unknown codec
    if (
        config.message_timestamp_type == TimestampTypeName.LOG_APPEND_TIME
        and batch.attributes & TIMESTAMP_TYPE_BIT
    ):
        text = (
            "Invalid timestamp type in message. Producer should not set timestamp type to "
            "LogAppendTime."
        )
        raise RecordValidationError(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            tuple(RecordError(each, text) for each in range(min(count, _RECORD_ERRORS_MAX))),
        )


def _opens(batch: RecordBatch, context: AppendContext) -> bool:
    """Whether a compressed batch must be decompressed because of a rule of the topic."""
    config = context.config
    if config.is_compacted or _target_codec(batch, config) is not batch.compression_type:
        return True
    return config.message_timestamp_type == TimestampTypeName.CREATE_TIME and (
        batch.max_timestamp > context.now_ms + config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms < INT64_MAX
    )


def _record_steps(batch: RecordBatch, context: AppendContext) -> Generator[None, None, RecordBatch]:
    """Validate the records, with pauses; returns the batch to store."""
    payload = batch.view[BATCH_OVERHEAD:]
    codec = batch.compression_type
    if batch.is_compressed:
        check_outside(codec, payload, batch.record_count * SMALLEST_RECORD_BYTES)
        if not _opens(batch, context):
            return batch
    limit = max(context.config.decompressed_batch_max_bytes, context.config.max_message_bytes)
    plain = yield from decompress_steps(codec, payload, limit)
    walk = RecordWalk(batch, plain)
    yield from walk.steps()
    is_producers_time = context.config.message_timestamp_type == TimestampTypeName.CREATE_TIME
    if is_producers_time and not walk.agrees_on_time:
        batch.max_timestamp = yield from _latest_time(batch, plain)
    yield from _check_limits(batch, plain, walk, context)
    if is_producers_time and not walk.agrees_on_time:
        # The header had a different maximum; Kafka's leader corrects it too.
        stamp_max_timestamp(batch.view, 0, batch.max_timestamp)
    target = _target_codec(batch, context.config)
    if target is codec:
        return batch
    yield
    recompressed = RecordBatch(memoryview(recompress_batch(batch, plain, target)))
    check_size(recompressed.size_in_bytes, context)
    return recompressed


def _latest_time(batch: RecordBatch, plain: Buffer) -> Generator[None, None, int]:
    """The largest timestamp of the records, for a batch whose header has a different one."""
    latest: int | None = None
    for number, record in enumerate(batch.decode(plain, with_own_time=True)):
        if latest is None or record.timestamp > latest:
            latest = record.timestamp
        if not (number + 1) % _RECORDS_PER_STEP:
            yield
    if latest is None or not -INT64_MAX <= latest <= INT64_MAX:
        raise _invalid(f"A record's timestamp {latest} exceeds what a batch header can hold.")
    return latest


def _check_limits(
    batch: RecordBatch, plain: Buffer, walk: RecordWalk, context: AppendContext
) -> Generator[None]:
    """Check keys and timestamps; decodes the records only if some of them may be invalid."""
    config = context.config
    lacks_keys = config.is_compacted and walk.first_keyless >= 0
    latest = context.now_ms + config.message_timestamp_after_max_ms
    earliest = max(context.now_ms - config.message_timestamp_before_max_ms, -INT64_MAX)
    checks_time = config.message_timestamp_type == TimestampTypeName.CREATE_TIME and (
        batch.max_timestamp > latest or config.message_timestamp_before_max_ms < INT64_MAX
    )
    if not (lacks_keys or checks_time):
        return
    missing_keys: list[RecordError] = []
    bad_times: list[RecordError] = []
    for index, record in enumerate(batch.decode(plain, with_own_time=True)):
        if not (index + 1) % _RECORDS_PER_STEP:
            yield
        if lacks_keys and record.key is None:
            text = "Compacted topic cannot accept message without key."
            missing_keys.append(RecordError(index, text))
        timestamp = record.timestamp
        if checks_time and timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            text = (
                f"Timestamp {timestamp} of message with offset {index} is out of range. "
                f"The timestamp should be within [{earliest}, {latest}]"
            )
            bad_times.append(RecordError(index, text))
        if len(missing_keys) + len(bad_times) >= _RECORD_ERRORS_MAX:
            break
    if bad_times:
        raise RecordValidationError(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            (*missing_keys, *bad_times),
        )
    if missing_keys:
        raise RecordValidationError(
            ErrorCode.INVALID_RECORD,
            "One or more records have been rejected: a compacted topic needs keys.",
            tuple(missing_keys),
        )


_RECORDS_PER_STEP = 2_048
"""Records decoded between two pauses."""


class TimestampTypeName:
    """The two values of message.timestamp.type."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


def assign_offsets(
    records: memoryview,
    record_batches: list[RecordBatch],
    first_offset: int,
    context: AppendContext,
) -> Appendable:
    """Assign offsets to the validated batches of `records`, in place unless recompressed."""
    config = context.config
    # As in Kafka, bytes after a client's batch in its buffer are dropped.
    if len(record_batches) == 1:
        buffer = record_batches[0].view
    else:
        buffer = records[: sum(batch.size_in_bytes for batch in record_batches)]
    if config.compression_type != _NO_CODEC_OF_ITS_OWN:
        rewritten = [_recompress(batch, context) for batch in record_batches]
        if any(new is not old for new, old in zip(rewritten, record_batches, strict=True)):
            buffer = memoryview(bytearray().join(batch.view for batch in rewritten))
            record_batches = list(batches(buffer))
    uses_append_time = config.message_timestamp_type == TimestampTypeName.LOG_APPEND_TIME
    offset = first_offset
    for batch in record_batches:
        if uses_append_time or batch.attributes & TIMESTAMP_TYPE_BIT:
            _stamp_time(batch, context.now_ms if uses_append_time else None)
        batch.assign(offset, context.leader_epoch)
        offset = batch.last_offset + 1
    return Appendable(buffer, record_batches, context.now_ms if uses_append_time else NO_TIMESTAMP)


def _stamp_time(batch: RecordBatch, append_time_ms: int | None) -> None:
    if append_time_ms is not None:
        stamp_log_append_time(batch.view, 0, append_time_ms)
        batch.attributes |= TIMESTAMP_TYPE_BIT
        batch.max_timestamp = append_time_ms
    else:
        # A producer cannot claim LogAppendTime on a topic with CreateTime.
        batch.attributes &= ~TIMESTAMP_TYPE_BIT
        _INT16.pack_into(batch.view, ATTRIBUTES_POSITION, batch.attributes)
        stamp_crc(batch.view, 0, batch.size_in_bytes)


def _recompress(batch: RecordBatch, context: AppendContext) -> RecordBatch:
    """The batch recompressed with the topic's codec, or the batch itself if it has that codec."""
    target = _target_codec(batch, context.config)
    if batch.is_control or target is batch.compression_type:
        return batch
    rebuilt = RecordBatch(memoryview(rebuild_batch(batch, batch.records(), compression=target)))
    check_size(rebuilt.size_in_bytes, context)
    return rebuilt


def _target_codec(batch: RecordBatch, config: LogConfig) -> CompressionType:
    """The codec with which the topic stores the batch."""
    name = config.compression_type
    if name == _NO_CODEC_OF_ITS_OWN:
        return batch.compression_type
    return CompressionType.NONE if name == "uncompressed" else CompressionType.from_name(name)


def _no_batch() -> KafkaError:
    return _invalid("An append must hold at least one record batch.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def too_large_for_segment(size: int, config: LogConfig) -> KafkaError:
    """The error for a batch that is larger than a segment."""
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"The record batch has {size} bytes, which exceeds segment.bytes ({config.segment_bytes}).",
    )
