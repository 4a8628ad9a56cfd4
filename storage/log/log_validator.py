"""What a leader demands of a batch before it gives it an offset (Kafka's `LogValidator`).

A client's append is one batch of message format 2 that starts at offset 0, matches its CRC, counts
its records rightly and is no control batch; it is no larger than the topic allows. Then
the leader stamps base offset and leader epoch in place: both lie outside the CRC, and the bytes are
never copied.

Every length in an uncompressed batch is looked at (`RecordWalk`, or `KnownShapes` where the batch
is like earlier ones): what is in the log must be readable by consumers, the cleaner and the tier. A
compressed batch is decompressed only where a rule needs its records: a compacted topic demands
keys, a limit on the past needs every timestamp, and a topic with its own compression.type stores
another codec. Of others the codec's own first bytes are looked at, and whether so many records can
come of so few bytes. docs/differences.md tells what Kafka looks at beyond that.

A batch of many records, and one that decompresses to much, takes longer than others may be kept
waiting: `client_batch_steps` is the same work with pauses.
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
from ...clients.steps import finished
from ..config import INT64_MAX, LogConfig
from ..producer.producer_entry import AppendOrigin
from .append_info import RecordError, RecordValidationError

# Python 3.11 looks a member of an enum up in 0.1 µs; here that happens for every batch.
_CLIENT = AppendOrigin.CLIENT
_INT16 = Struct(">h")
_UNUSUAL = CONTROL_BIT | COMPRESSION_CODEC_MASK | TIMESTAMP_TYPE_BIT
"""Attributes that clients may not send, or of which there may be a codec that nobody knows."""
_NO_CODEC_OF_ITS_OWN = "producer"
_MANY_RECORDS = 8_192
"""A batch of more is looked at in turns with whatever else there is to do."""
_WORK_OF_A_BATCH = 64
_BYTES_A_RECORDS_WORK = 512
_KNOWN_SHAPES = KnownShapes()
_RECORD_ERRORS_MAX = 1_000
"""So many bad records of a batch are named; the others are as bad."""


@dataclass(slots=True)
class AppendContext:
    """What the leader knows and the batch does not."""

    config: LogConfig
    origin: AppendOrigin
    leader_epoch: int
    now_ms: int
    is_checked: bool = False
    """Whether `client_batch_steps` has looked at the records already."""


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
    record_batches = list(batches(records))
    if not record_batches:
        raise _no_batch()
    for batch in record_batches:
        check_size(batch.size_in_bytes, context)
        batch.ensure_valid()
    return record_batches


def _client_batch(records: memoryview, context: AppendContext) -> RecordBatch:
    """The one batch of a client's append."""
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
    # It is compressed, breaks a rule, tells a wrong time or changes its codec.
    return finished(_record_steps(batch, context))


def client_batch_steps(
    records: memoryview, context: AppendContext
) -> Generator[None, None, RecordBatch] | None:
    """The checks of a client's batch with pauses, where they may take long; else None.

    The generator's value is the batch to be appended, with `is_checked`. Raises KafkaError, as does
    the generator.
    """
    batch = RecordBatch(records)
    is_long = _opens(batch, context) if batch.is_compressed else batch.record_count > _MANY_RECORDS
    return _client_batch_steps(records, context) if is_long else None


def may_take_long(records: memoryview) -> bool:
    """Whether `client_batch_steps` is worth asking: most batches have few records and no codec."""
    if len(records) < BATCH_OVERHEAD:
        return False
    attributes: int
    count: int
    attributes, count = ATTRIBUTES_AND_COUNT.unpack_from(records)
    return count > _MANY_RECORDS or attributes & COMPRESSION_CODEC_MASK > 0


def plain_work(records: memoryview) -> int:
    """`work_of` a client's plain batch, one of few records that has no attribute at all: nothing
    can be said against it before it is appended, and it takes no long check. 0 for any other.
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
    """About what it takes to check and append a batch that needs no long check, in records looked
    at, which take half a microsecond each.
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
    """The one batch in `records`, after a look at its header."""
    try:
        batch = RecordBatch(records)
    except KafkaError:
        batch = _only_batch(records)
    if batch.size_in_bytes != len(records):
        batch = _only_batch(records)
    if batch.base_offset != 0:
        raise _invalid(
            f"A produced batch must start at offset 0, not {batch.base_offset}: "
            "offsets are given by the leader."
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
    """The batch in front of some bytes that are not one."""
    record_batches = list(batches(records))
    if not record_batches:
        raise _no_batch()
    if len(record_batches) > 1:
        raise _invalid("A partition takes exactly one record batch in a Produce request.")
    return record_batches[0]


def check_size(size: int, context: AppendContext) -> None:
    """Raise MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE for a batch that cannot be stored."""
    limit = context.config.max_message_bytes
    if size > limit and context.origin is not AppendOrigin.RAFT_LEADER:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch has {size} bytes, more than max.message.bytes allows ({limit}).",
        )


def _check_client_batch(batch: RecordBatch, config: LogConfig) -> None:
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
    """Whether a rule of the topic needs the records of a compressed batch."""
    config = context.config
    if config.is_compacted or _target_codec(batch, config) is not batch.compression_type:
        return True
    return config.message_timestamp_type == TimestampTypeName.CREATE_TIME and (
        batch.max_timestamp > context.now_ms + config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms < INT64_MAX
    )


def _record_steps(batch: RecordBatch, context: AppendContext) -> Generator[None, None, RecordBatch]:
    """Look at the records, with pauses; the value is the batch as it is to be stored."""
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
        # As Kafka's leader does.
        stamp_max_timestamp(batch.view, 0, batch.max_timestamp)
    target = _target_codec(batch, context.config)
    if target is codec:
        return batch
    yield
    recompressed = RecordBatch(memoryview(recompress_batch(batch, plain, target)))
    check_size(recompressed.size_in_bytes, context)
    return recompressed


def _latest_time(batch: RecordBatch, plain: Buffer) -> Generator[None, None, int]:
    """The largest timestamp of the records, where the header tells another one."""
    latest: int | None = None
    for number, record in enumerate(batch.decode(plain, with_own_time=True)):
        if latest is None or record.timestamp > latest:
            latest = record.timestamp
        if not (number + 1) % _RECORDS_PER_STEP:
            yield
    if latest is None or not -INT64_MAX <= latest <= INT64_MAX:
        raise _invalid(f"A record's timestamp {latest} is beyond what a header can tell.")
    return latest


def _check_limits(
    batch: RecordBatch, plain: Buffer, walk: RecordWalk, context: AppendContext
) -> Generator[None]:
    """Keys and timestamps, record by record where some are known to be bad."""
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
"""Records that are decoded between two pauses."""


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
    """Give the validated batches of `records` their offsets, in place where their bytes stay."""
    config = context.config
    # What follows a client's batch in its buffer is cut, as Kafka does.
    if len(record_batches) == 1:
        buffer = record_batches[0].view
    else:
        buffer = records[: sum(batch.size_in_bytes for batch in record_batches)]
    if config.compression_type != _NO_CODEC_OF_ITS_OWN:
        rewritten = [_recompressed(batch, context) for batch in record_batches]
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
        # A producer cannot claim the leader's clock on a topic that keeps the producers' time.
        batch.attributes &= ~TIMESTAMP_TYPE_BIT
        _INT16.pack_into(batch.view, ATTRIBUTES_POSITION, batch.attributes)
        stamp_crc(batch.view, 0, batch.size_in_bytes)


def _recompressed(batch: RecordBatch, context: AppendContext) -> RecordBatch:
    """The batch with the topic's codec, itself if that is the codec it has."""
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
    """Why a batch that no segment could take is refused."""
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"The record batch has {size} bytes, more than a segment takes ({config.segment_bytes}).",
    )
