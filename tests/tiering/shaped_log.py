"""Logs of batches of many shapes, and what clients are answered about them wherever they lie.

Each batch of a shaped log may have its own codec, kind of timestamp, gaps between offsets (as after
compaction), leader epoch and transaction, and may begin a new segment.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from hypothesis import strategies as st

from tierlog.clients.consumer.completed_fetch import CompletedFetch, ConsumerRecord
from tierlog.clients.errors import KafkaError
from tierlog.clients.protocol.messages.fetch import AbortedTransaction, PartitionData
from tierlog.clients.record.batch import Record, RecordBatch, TimestampType
from tierlog.clients.record.builder import BatchFields, RecordBatchBuilder, build_control_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.replication.leader.offset_lookup import LongSearches, OffsetQuery, look_up_offset
from tierlog.replication.leader.search_slots import SearchSlots
from tierlog.replication.metadata.cluster_image import PartitionImage
from tierlog.replication.partition.partition import Partition
from tierlog.storage.log.fetch_data import FetchDataInfo, FetchIsolation
from tierlog.storage.segment.time_index import TimestampAndOffset
from tierlog.storage.segment.transaction_index import AbortedTxn
from tierlog.tests.tiering.tiered_broker import PARTITION, TieredBroker

FIRST_MS = 1_000
LAST_MS = 1_012


class Kind(Enum):
    """What a batch is for its producer's transaction."""

    PLAIN = "plain"
    EMPTY = "all of its records were compacted away"
    DATA = "data"
    COMMIT = "commit"
    ABORT = "abort"


class Shape(NamedTuple):
    """A batch to be made."""

    times: tuple[int, ...]
    """The timestamps of its records; a marker takes the first."""
    gaps: tuple[int, ...]
    """How many offsets are missing before each record."""
    missing_after: int
    """How many records at the end of the batch were compacted away."""
    codec: CompressionType
    timestamp_type: TimestampType
    kind: Kind
    producer: int
    epochs_passed: int
    """How many leaders were elected before it was written."""
    begins_segment: bool


TIMES = st.one_of(st.integers(FIRST_MS, LAST_MS), st.just(-1))
SHAPES = st.lists(
    st.tuples(TIMES, st.sampled_from([0, 0, 0, 1, 3])), min_size=1, max_size=4
).flatmap(
    lambda records: st.builds(
        Shape,
        times=st.just(tuple(time for time, _ in records)),
        gaps=st.just(tuple(gap for _, gap in records)),
        missing_after=st.sampled_from([0, 0, 0, 2]),
        codec=st.sampled_from([CompressionType.NONE, CompressionType.NONE, CompressionType.GZIP]),
        timestamp_type=st.sampled_from(list(TimestampType)),
        kind=st.sampled_from([Kind.PLAIN, *Kind]),
        producer=st.integers(1, 2),
        epochs_passed=st.sampled_from([0, 0, 0, 1]),
        begins_segment=st.sampled_from([False, False, True]),
    )
)
LOGS = st.lists(SHAPES, min_size=2, max_size=12)


def append_shapes(broker: TieredBroker, shapes: Sequence[Shape]) -> list[Record]:
    """Append the batches as a follower does; answers every record, control records too.

    Transactions that are open at the end are aborted, and the last segment is closed.
    """
    log, now = broker.log, broker.environment.wall_clock_ms()
    records: list[Record] = []
    epoch, in_transaction = 0, dict[int, bool]()
    for shape in shapes:
        epoch += shape.epochs_passed
        if shape.begins_segment and log.local.active_segment.size:
            log.roll(now)
        if shape.kind is Kind.DATA:
            in_transaction[shape.producer] = True
        elif shape.kind in (Kind.COMMIT, Kind.ABORT):
            in_transaction[shape.producer] = False
        records += _append(broker, _batch(shape, log.log_end_offset, epoch))
    for producer, is_open in in_transaction.items():
        if is_open:
            end = Shape((LAST_MS,), (0,), 0, *_PLAIN, Kind.ABORT, producer, 0, False)
            records += _append(broker, _batch(end, log.log_end_offset, epoch))
    log.roll(now)
    broker.lead(epoch)
    return records


_PLAIN = (CompressionType.NONE, TimestampType.CREATE_TIME)


def _append(broker: TieredBroker, batch: bytearray) -> list[Record]:
    broker.log.append_as_follower(memoryview(batch), broker.environment.wall_clock_ms())
    broker.log.update_high_watermark(broker.log.log_end_offset)
    return list(RecordBatch(memoryview(batch)).records())


def _batch(shape: Shape, end_offset: int, epoch: int) -> bytearray:
    first = end_offset + shape.gaps[0]
    fields: BatchFields = {"base_offset": first, "leader_epoch": epoch}
    if shape.kind is not Kind.PLAIN:
        fields |= {"producer_id": shape.producer, "producer_epoch": 0}
    if shape.kind in (Kind.COMMIT, Kind.ABORT):
        control_type = (
            ControlRecordType.COMMIT if shape.kind is Kind.COMMIT else ControlRecordType.ABORT
        )
        return build_control_batch(EndTransactionMarker(control_type, 0), shape.times[0], **fields)
    fields |= {"compression": shape.codec, "timestamp_type": shape.timestamp_type}
    if shape.kind is Kind.DATA:
        fields |= {"is_transactional": True, "base_sequence": first}
    builder = RecordBatchBuilder(**fields)
    if shape.kind is Kind.EMPTY:
        last = first + len(shape.times) - 1
        return builder.build(last_offset=last, max_timestamp=max(shape.times))
    offset = first
    for time, gap in zip(shape.times, (0, *shape.gaps[1:]), strict=True):
        offset += gap
        builder.append(time, b"k%d" % offset, b"v%d" % offset, offset=offset)
        offset += 1
    return builder.build(last_offset=offset - 1 + shape.missing_after)


def led_partition(broker: TieredBroker) -> Partition:
    """The partition as ListOffsets sees it."""
    image = PartitionImage((0,), (0,), 0, broker.epoch, 0)
    partition = Partition(PARTITION, broker.log, image, 0)
    partition.update(image)
    return partition


async def ask(
    broker: TieredBroker, timestamp: int, isolation: FetchIsolation
) -> TimestampAndOffset | str:
    """What ListOffsets answers: an offset, or the name of an error."""
    query = OffsetQuery(PARTITION.topic_partition, timestamp)
    try:
        searches = LongSearches(SearchSlots(), lambda: True)
        found = look_up_offset(led_partition(broker), query, isolation, broker.manager, searches)
        return found if isinstance(found, TimestampAndOffset) else await found
    except KafkaError as error:
        return error.code.name


async def fetch(
    broker: TieredBroker, offset: int, isolation: FetchIsolation
) -> tuple[list[ConsumerRecord], int, bool]:
    """What a consumer gets of one fetch, where it stands then, and whether the tier answered."""
    found = broker.log.read(offset, 1 << 20, isolation, min_one_message=True)
    if isinstance(found, FetchDataInfo):
        raw = found.records if isinstance(found.records, bytes) else found.records.read()
        records, next_offset = _taken(offset, raw, found.aborted_transactions)
        return records, next_offset, False
    result = await broker.manager.read(found)
    records, next_offset = _taken(offset, result.records, result.aborted_transactions)
    return records, next_offset, True


def _taken(
    offset: int, raw: bytes | memoryview, aborted: list[AbortedTxn] | None
) -> tuple[list[ConsumerRecord], int]:
    data = PartitionData(
        records=bytes(raw),
        aborted_transactions=[
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in aborted or ()
        ],
    )
    completed = CompletedFetch(PARTITION.topic_partition, offset, data, check_crcs=True)
    return completed.take(1 << 30), completed.next_offset


async def consume(
    broker: TieredBroker, isolation: FetchIsolation, offset: int = 0
) -> list[ConsumerRecord]:
    """Everything from an offset on, fetch after fetch."""
    end = broker.log.visible_end(isolation)
    records: list[ConsumerRecord] = []
    while offset < end:
        taken, next_offset, _ = await fetch(broker, offset, isolation)
        if next_offset == offset:
            break
        records += taken
        offset = next_offset
    return records


def first_as_young(records: Sequence[Record], timestamp: int) -> tuple[int, int]:
    """The time and offset of the first record that is as young, by looking at each; (-1, -1)."""
    return next(
        ((each.timestamp, each.offset) for each in records if each.timestamp >= timestamp), (-1, -1)
    )


def youngest(records: Sequence[Record]) -> tuple[int, int]:
    """The time and offset of the first record with the largest time, by looking at each."""
    best = max(records, key=lambda each: (each.timestamp, -each.offset), default=None)
    return (-1, -1) if best is None else (best.timestamp, best.offset)


def timestamps() -> Iterator[int]:
    """Every time that a shaped record may have, and those just before and after."""
    return iter((0, *range(FIRST_MS - 1, LAST_MS + 2)))
