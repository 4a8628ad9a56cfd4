"""Reads the metadata log's changes of state, each once, as far as the log is committed.

The reader can be resumed: it remembers its offset, and the records of a metadata transaction that
has begun but not ended (KIP-868), which take effect together when it ends. Kafka's `MetadataLoader`
and `MetadataBatchLoader` do the same.

One batch may hold ten thousand records. So that none holds up the event loop, `steps` pauses within
a batch, too: a pause is a None in the place of a change.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.schema import Message
from ...clients.record.batch import RecordBatch, batches
from ...clients.record.control import ControlRecordType
from ...storage.files import FileRegion
from ...storage.log.fetch_data import FetchIsolation, RemoteRead
from ...storage.log.unified_log import UnifiedLog
from .metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    TopicRecord,
    decode_record,
)
from .snapshot_format import QUORUM_RECORDS

if TYPE_CHECKING:
    from ...clients.kafka_uuid import Uuid

_READ_BYTES = 1 << 20

RECORDS_A_STEP = 64
"""Records that are read without a pause: about two milliseconds."""


class CommittedRecords(NamedTuple):
    """One change of state: its records, and the offset and epoch of the last record."""

    records: Sequence[Message]
    last_offset: int
    epoch: int


class CommittedReader:
    """A position in the metadata log, and what was seen before it."""

    def __init__(self, log: UnifiedLog, offset: int) -> None:
        self._log = log
        self._bracket: list[Message] | None = None
        self.offset = offset
        """The offset of the next batch to read."""
        self.created_topics: set[Uuid] = set()
        """The topics whose creation was read, whether in an aborted transaction or not."""
        self.quorum_records: dict[ControlRecordType, bytes] = {}
        """The last record of each kind on the quorum's version and voters."""
        self.is_ahead = False
        """Whether some of what was read has yet to take effect."""

    @property
    def is_in_transaction(self) -> bool:
        """Whether the next batch is within a metadata transaction."""
        return self._bracket is not None

    def skip_to(self, offset: int) -> None:
        """Go on at an offset outside of any transaction, for what is before it is known."""
        assert offset >= self.offset
        self.offset = offset
        self._bracket = None

    def read(self, end: int) -> Iterator[CommittedRecords]:
        """The changes of state in the batches that are whole below `end`, oldest first.

        A batch that only ends or aborts a transaction is a change too, perhaps without records. The
        reader is behind a change when it is yielded. Raises KafkaError(INVALID_RECORD,
        CORRUPT_MESSAGE) for a log that cannot be read.
        """
        return (change for change in self.steps(end) if change is not None)

    def steps(self, end: int) -> Iterator[CommittedRecords | None]:
        """As `read`, with pauses. At a pause the reader may be ahead of what it has yielded."""
        for batch in metadata_batches(self._log, self.offset, end):
            self.offset = batch.next_offset
            if batch.is_control:
                self._note_quorum_records(batch)
                yield None
                continue
            changes = yield from self._changes(batch)
            if changes or self._bracket is None:
                yield CommittedRecords(changes, batch.last_offset, batch.partition_leader_epoch)

    def pass_over(self, end: int) -> None:
        """Go on to `end` without the changes, which the caller has written itself.

        A leader ends the metadata transaction that it finds open before it changes anything. Raises
        KafkaError(CORRUPT_MESSAGE).
        """
        for batch in metadata_batches(self._log, self.offset, end):
            self.offset = batch.next_offset
            if batch.is_control:
                self._note_quorum_records(batch)
            else:
                self._bracket = None

    def _changes(self, batch: RecordBatch) -> Generator[None, None, list[Message]]:
        """The records of a batch that take effect with it, after some pauses."""
        changes: list[Message] = []
        bracket = self._bracket
        for count, record in enumerate(batch.records(), 1):
            if not count % RECORDS_A_STEP:
                yield
            message = decoded(self._log, record.value or b"", batch)
            match message:
                case BeginTransactionRecord():
                    bracket = []
                case EndTransactionRecord():
                    changes += bracket or ()
                    bracket = None
                case AbortTransactionRecord():
                    bracket = None
                case _:
                    if isinstance(message, TopicRecord):
                        self.created_topics.add(message.topic_id)
                    (changes if bracket is None else bracket).append(message)
        self._bracket = bracket
        return changes

    def _note_quorum_records(self, batch: RecordBatch) -> None:
        for record in batch.records():
            kind = ControlRecordType.parse(record.key)
            if kind in QUORUM_RECORDS:
                self.quorum_records[kind] = record.value or b""


def metadata_batches(log: UnifiedLog, offset: int, end: int) -> Iterator[RecordBatch]:
    """The batches from `offset`, where one begins, that are whole below `end`.

    Raises KafkaError(CORRUPT_MESSAGE).
    """
    while offset < end:
        fetched = log.read(offset, _READ_BYTES, FetchIsolation.LOG_END, True)
        assert not isinstance(fetched, RemoteRead), "the metadata log is never tiered"
        records = fetched.records
        content = records.read() if isinstance(records, FileRegion) else records
        for batch in batches(content):
            if batch.next_offset > end:
                return
            if not batch.crc_is_valid():
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"The metadata log in {log.directory} is damaged at offset "
                    f"{batch.base_offset}: the CRC of its record batch is wrong.",
                )
            offset = batch.next_offset
            yield batch


def decoded(log: UnifiedLog, value: bytes, batch: RecordBatch) -> Message:
    """A record of a batch. Raises KafkaError(INVALID_RECORD, CORRUPT_MESSAGE)."""
    try:
        return decode_record(value)
    except KafkaError as error:
        raise KafkaError(
            error.code,
            f"The metadata log in {log.directory} is damaged in the batch at offset "
            f"{batch.base_offset}: {error.message}",
        ) from error
