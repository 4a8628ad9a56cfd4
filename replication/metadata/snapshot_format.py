"""The bytes and the names of metadata snapshots (KIP-630; Kafka's `RecordsSnapshotWriter`).

    00000000000000001234-0000000007.checkpoint    everything below offset 1234, of epoch 7 at last

    control batch    SnapshotHeader, and the quorum's version and voters if they are records
    data batches     the records that build the image
    control batch    SnapshotFooter

The batches are those of a log: their offsets count from 0, and their epoch is the snapshot's. A
snapshot without a footer is incomplete.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError, ProtocolError
from ...clients.protocol.codec import decode, encode_bytes
from ...clients.protocol.messages.quorum_records import SnapshotFooterRecord, SnapshotHeaderRecord
from ...clients.protocol.schema import Message
from ...clients.record.batch import NO_TIMESTAMP, Record, RecordBatch, batches
from ...clients.record.builder import RecordBatchBuilder
from ...clients.record.control import ControlRecordType
from .metadata_records import decode_record, encode_record

SNAPSHOT_SUFFIX = ".checkpoint"
PARTIAL_SUFFIX = SNAPSHOT_SUFFIX + ".part"
DELETED_SUFFIX = SNAPSHOT_SUFFIX + ".deleted"

_OFFSET_WIDTH, _EPOCH_WIDTH = 20, 10
_ID_WIDTH = _OFFSET_WIDTH + 1 + _EPOCH_WIDTH
_OFFSET_MAX = 2**63 - 1
_RECORDS_AT_A_TIME = 64
"""Records of a snapshot that are decoded without a pause."""
_BATCH_BYTES = 32 * 1024
"""The size from which on a batch is complete: what one batch takes holds up the event loop."""


class SnapshotId(NamedTuple):
    """What a snapshot contains: everything below an offset, whose last record has this epoch."""

    offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.offset:0{_OFFSET_WIDTH}d}-{self.epoch:0{_EPOCH_WIDTH}d}"


QUORUM_RECORDS = (ControlRecordType.KRAFT_VERSION, ControlRecordType.KRAFT_VOTERS)
"""The control records on the quorum itself, of which a snapshot has the last ones (KIP-853)."""


class QuorumRecord(NamedTuple):
    """A control record and its value."""

    type: ControlRecordType
    value: bytes


class SnapshotDamagedError(Exception):
    """The content of a snapshot cannot be used; the message says why, without a final period."""


def snapshot_id_of(name: str) -> SnapshotId | None:
    """The snapshot of a file, which may be partial or deleted; None for another file."""
    if not name.endswith((SNAPSHOT_SUFFIX, PARTIAL_SUFFIX, DELETED_SUFFIX)):
        return None
    offset, dash, epoch = name[:_OFFSET_WIDTH], name[_OFFSET_WIDTH:][:1], name[:_ID_WIDTH][21:]
    if dash != "-" or not (offset + epoch).isascii() or not (offset.isdigit() and epoch.isdigit()):
        return None
    return SnapshotId(int(offset), int(epoch)) if int(offset) <= _OFFSET_MAX else None


def snapshot_batches(
    snapshot_id: SnapshotId,
    records: Iterable[Message],
    *,
    last_timestamp_ms: int,
    now_ms: int,
    quorum: Sequence[QuorumRecord] = (),
) -> Iterator[bytearray]:
    """The content of a snapshot, batch by batch: each is ready in a few milliseconds.

    `last_timestamp_ms` is the timestamp of the last record of the log that the snapshot contains.
    """
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
    controls = [QuorumRecord(ControlRecordType.SNAPSHOT_HEADER, encode_bytes(header, 0)), *quorum]
    yield _control_batch(snapshot_id, 0, now_ms, controls)
    offset = len(controls)
    builder: RecordBatchBuilder | None = None
    for record in records:
        if builder is None:
            builder = RecordBatchBuilder(base_offset=offset, leader_epoch=snapshot_id.epoch)
        builder.append(now_ms, None, encode_record(record))
        offset += 1
        if builder.size_in_bytes >= _BATCH_BYTES:
            yield builder.build()
            builder = None
    if builder is not None:
        yield builder.build()
    footer = encode_bytes(SnapshotFooterRecord(version=0), 0)
    end = QuorumRecord(ControlRecordType.SNAPSHOT_FOOTER, footer)
    yield _control_batch(snapshot_id, offset, now_ms, [end])


def _control_batch(
    snapshot_id: SnapshotId, offset: int, now_ms: int, records: Sequence[QuorumRecord]
) -> bytearray:
    builder = RecordBatchBuilder(
        is_control=True, base_offset=offset, leader_epoch=snapshot_id.epoch
    )
    for kind, value in records:
        builder.append(now_ms, kind.key(), value)
    return builder.build()


class SnapshotTimes(NamedTuple):
    """The times in a snapshot's header, in milliseconds since the epoch; -1 if it is unreadable."""

    last_record_ms: int
    """The timestamp of the last record of the log that the snapshot contains."""
    written_ms: int


def snapshot_times(head: bytes) -> SnapshotTimes:
    """The times in the header, which is in the first bytes of a snapshot."""
    try:
        for record in next(iter(batches(head))).records():
            if ControlRecordType.parse(record.key) is ControlRecordType.SNAPSHOT_HEADER:
                header = _header(record)
                return SnapshotTimes(header.last_contained_log_timestamp, record.timestamp)
    except (KafkaError, ProtocolError, StopIteration):
        pass
    return SnapshotTimes(NO_TIMESTAMP, NO_TIMESTAMP)


def _header(record: Record) -> SnapshotHeaderRecord:
    return decode(SnapshotHeaderRecord, 0, memoryview(record.value or b""))[0]


class SnapshotContent:
    """The content of a snapshot, all of whose bytes have been checked."""

    def __init__(self, snapshot_id: SnapshotId, content: bytes) -> None:
        """Raises SnapshotDamagedError for an incomplete or damaged content."""
        self.snapshot_id = snapshot_id
        self.quorum: list[QuorumRecord] = []
        """The version and the voters of the quorum, if they are records."""
        self._batches: list[RecordBatch] = []
        try:
            self._check(content)
        except (KafkaError, ProtocolError) as error:
            raise SnapshotDamagedError(error.message.rstrip(".")) from error

    def _check(self, content: bytes) -> None:
        controls: list[ControlRecordType] = []
        end = size = 0
        for batch in batches(content):
            if not batch.crc_is_valid():
                raise SnapshotDamagedError(f"the CRC of its batch at position {size} is wrong")
            if ControlRecordType.SNAPSHOT_FOOTER in controls:
                raise SnapshotDamagedError("a batch follows its footer")
            if batch.base_offset != end:
                raise SnapshotDamagedError(
                    f"its batch at position {size} has offset {batch.base_offset}, not {end}"
                )
            if batch.partition_leader_epoch != self.snapshot_id.epoch:
                raise SnapshotDamagedError(
                    f"its batch at position {size} has epoch {batch.partition_leader_epoch}"
                )
            size, end = size + batch.size_in_bytes, batch.next_offset
            if not batch.is_control:
                self._batches.append(batch)
                continue
            for record in batch.records():
                controls.append(ControlRecordType.parse(record.key))
                self._note_control(controls[-1], record)
        if size != len(content):
            raise SnapshotDamagedError(f"its last {len(content) - size} bytes are not a batch")
        if controls[:1] != [ControlRecordType.SNAPSHOT_HEADER]:
            raise SnapshotDamagedError("it does not begin with a header")
        if controls[-1] is not ControlRecordType.SNAPSHOT_FOOTER:
            raise SnapshotDamagedError("it is incomplete: it has no footer")

    def _note_control(self, kind: ControlRecordType, record: Record) -> None:
        if kind is ControlRecordType.SNAPSHOT_HEADER:
            _header(record)
        elif kind in QUORUM_RECORDS:
            self.quorum.append(QuorumRecord(kind, record.value or b""))

    def records(self) -> Iterator[Sequence[Message]]:
        """The records that build the image, some at a time.

        Raises KafkaError(INVALID_RECORD) for a record of an unknown type or version.
        """
        for batch in self._batches:
            records = iter(batch.records())
            try:
                while some := list(islice(records, _RECORDS_AT_A_TIME)):
                    yield [decode_record(record.value or b"") for record in some]
            except KafkaError as error:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD,
                    f"The snapshot {self.snapshot_id} of the metadata log cannot be read: "
                    f"{error.message}",
                ) from error
