"""`__cluster_metadata-0`: the log whose fold is the cluster's state (KIP-500, KIP-595).

It is a log like any other, kept in the metadata log directory, but its records are the quorum's
alone. An epoch begins with a LeaderChange control record; a batch of records is one change of
state, all or nothing.

Rules it keeps:

- a record counts only after its bytes are on the disk: the high watermark follows the flush, and
  with one voter it follows it at once (stricter than Kafka's leader);
- the epoch rises at every start and is on the disk before anything is written in it;
- records between BeginTransaction and EndTransaction count together, or not at all (KIP-868).
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.codec import encode_bytes
from ...clients.protocol.schema import Message
from ...clients.record.batch import RecordBatch, batches
from ...clients.record.builder import RecordBatchBuilder
from ...clients.record.control import ControlRecordType
from ...clients.topic_partition import TopicPartition
from ...storage.checkpoint import PARTITION_METADATA_FILE, write_partition_metadata
from ...storage.config import LogConfig
from ...storage.directory.log_dir import LogDir, ResourcesExhaustedError
from ...storage.files import FileRegion, Files
from ...storage.log.fetch_data import FetchIsolation, RemoteRead
from ...storage.log.unified_log import UnifiedLog
from ...storage.manager.log_dirs import CLUSTER_METADATA_TOPIC
from ...storage.manager.log_loader import LoadRequest, load_log
from ...storage.producer.producer_entry import AppendOrigin
from .durable_end import refuse_to_cut, write_durable_end
from .metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from .quorum import (
    QUORUM_STATE_FILE,
    LeaderChangeMessage,
    QuorumState,
    Voter,
    read_quorum_state,
    write_quorum_state,
)

if TYPE_CHECKING:
    from ...storage.log.local_log import FlushTask

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")
"""The id that Kafka reserves for the topic."""

_READ_BYTES = 1 << 20

_log = logging.getLogger(__name__)


_METADATA_LOG_CONFIG = LogConfig(
    cleanup_policy=(), max_message_bytes=8 * 1024 * 1024, retention_ms=-1, retention_bytes=-1
)


def open_metadata_log(
    log_dir: LogDir, node_id: int, now_ms: int, *, had_clean_shutdown: bool = False
) -> "MetadataLog":
    """Open or create the metadata log in a directory.

    Without a clean shutdown every batch is checked again and a torn end is cut off. Raises
    KafkaError(KAFKA_STORAGE_ERROR), and LogDirError where that would cut what was flushed once.
    """
    directory = f"{log_dir.path}/{METADATA_PARTITION}"
    log_dir.check()
    try:
        _make_directory(log_dir.files, log_dir.path, directory)
        state = read_quorum_state(log_dir.files, f"{directory}/{QUORUM_STATE_FILE}")
        refuse_to_cut(log_dir.files, directory, state.leader_epoch)
    except OSError as error:
        raise log_dir.fail(error) from error
    request = LoadRequest(
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        directory,
        _METADATA_LOG_CONFIG,
        had_clean_shutdown=had_clean_shutdown,
    )
    return MetadataLog(load_log(log_dir, request, now_ms), log_dir.files, node_id)


def _make_directory(files: Files, parent: str, directory: str) -> None:
    """The directory and its `partition.metadata`, on the disk before anything is in it."""
    if not files.is_directory(directory):
        files.mkdirs(directory)
        files.sync_dir(parent)
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not files.exists(path):
        write_partition_metadata(files, path, METADATA_TOPIC_ID)


class CommittedRecords(NamedTuple):
    """One change of state: its records, and the offset and epoch of the last of them."""

    records: Sequence[Message]
    last_offset: int
    epoch: int


class MetadataLog:
    """The metadata log of a node that is its quorum's only voter."""

    def __init__(self, log: UnifiedLog, files: Files, node_id: int) -> None:
        self._log = log
        self._files = files
        self._node_id = node_id
        self._state_path = f"{log.directory}/{QUORUM_STATE_FILE}"
        self._state = read_quorum_state(files, self._state_path)
        self._created_topics: set[Uuid] = set()

    @property
    def directory(self) -> str:
        return self._log.directory

    @property
    def epoch(self) -> int:
        return self._state.leader_epoch

    @property
    def state(self) -> QuorumState:
        return self._state

    @property
    def end_offset(self) -> int:
        """Where the next record will be."""
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The end of what counts."""
        return self._log.high_watermark

    def become_leader(self, now_ms: int) -> None:
        """Begin the next epoch: the epoch is on the disk, its first record awaits `flush`."""
        self._state = self._state.elected(self._node_id)
        write_quorum_state(self._files, self._state_path, self._state)
        self._append(self._leader_change(now_ms), now_ms)

    def _leader_change(self, now_ms: int) -> bytearray:
        voters = [Voter(voter_id=voter) for voter in self._state.voters]
        message = LeaderChangeMessage(
            version=0, leader_id=self._node_id, voters=voters, granting_voters=voters
        )
        builder = RecordBatchBuilder(is_control=True)
        builder.append(now_ms, ControlRecordType.LEADER_CHANGE.key(), encode_bytes(message, 0))
        return builder.build()

    def append(self, records: Sequence[Message], now_ms: int) -> int:
        """Write one change of state; the offset of its last record. It doesn't count yet."""
        builder = RecordBatchBuilder()
        for record in records:
            builder.append(now_ms, None, encode_record(record))
        return self._append(builder.build(), now_ms)

    def _append(self, batch: bytearray, now_ms: int) -> int:
        info = self._log.append_as_leader(
            memoryview(batch), self._state.leader_epoch, now_ms, AppendOrigin.RAFT_LEADER
        )
        return info.last_offset

    def prepare_flush(self) -> "FlushTask | None":
        """The fsync that is still owed, to be run in a thread and then completed."""
        return self._log.prepare_flush()

    def run_flush(self, task: "FlushTask") -> None:
        """Do the fsync, and note how far it went; in any thread. Raises OSError."""
        task.run()
        write_durable_end(self._files, self._log.directory, task.offset, self.epoch)

    def fail_flush(self, error: OSError) -> KafkaError:
        """The fsync has failed: what to raise. If the disk refused it, the directory is offline."""
        return self._log.log_dir.fail(error)

    def complete_flush(self, task: "FlushTask") -> None:
        """The fsync is done: everything below its offset counts."""
        self._log.complete_flush(task)
        self._log.update_high_watermark(task.offset)

    def flush(self) -> None:
        """Put everything on the disk now. With one voter it counts from then on."""
        self._log.flush()
        write_durable_end(self._files, self._log.directory, self._log.log_end_offset, self.epoch)
        self._log.update_high_watermark(self._log.log_end_offset)

    def has_lost(self, topic_id: Uuid) -> bool:
        """Whether a topic that once was is in no record, not even as deleted. After `replay`.

        A log is made only once its topic is committed, so then committed records are gone.
        """
        return self._log.log_start_offset == 0 and topic_id not in self._created_topics

    def replay(self) -> Iterator[CommittedRecords]:
        """Every change of state in the log, oldest first: for its leader, before it serves.

        What a former life has left behind counts, too, once the new leader has flushed.
        Raises KafkaError(INVALID_RECORD, CORRUPT_MESSAGE) for a log that can't be understood.
        """
        bracket: list[Message] | None = None
        for batch in self._batches():
            if batch.is_control:
                continue
            unbracketed: list[Message] = []
            for record in batch.records():
                message = self._decoded(record.value or b"", batch)
                match message:
                    case BeginTransactionRecord():
                        bracket = []
                    case EndTransactionRecord():
                        unbracketed += bracket or ()
                        bracket = None
                    case AbortTransactionRecord():
                        bracket = None
                    case _:
                        if isinstance(message, TopicRecord):
                            self._created_topics.add(message.topic_id)
                        (unbracketed if bracket is None else bracket).append(message)
            if unbracketed:
                yield CommittedRecords(unbracketed, batch.last_offset, batch.partition_leader_epoch)

    def _decoded(self, value: bytes, batch: RecordBatch) -> Message:
        try:
            return decode_record(value)
        except KafkaError as error:
            raise KafkaError(
                error.code,
                f"The metadata log in {self._log.directory} is damaged in the batch at offset "
                f"{batch.base_offset}: {error.message}",
            ) from error

    def _batches(self) -> Iterator[RecordBatch]:
        offset = self._log.log_start_offset
        while offset < self._log.log_end_offset:
            fetched = self._log.read(offset, _READ_BYTES, FetchIsolation.LOG_END, True)
            assert not isinstance(fetched, RemoteRead), "the metadata log is never tiered"
            records = fetched.records
            content = records.read() if isinstance(records, FileRegion) else records
            for batch in batches(content):
                if not batch.crc_is_valid():
                    raise KafkaError(
                        ErrorCode.CORRUPT_MESSAGE,
                        f"The metadata log in {self._log.directory} is damaged at offset "
                        f"{batch.base_offset}: the CRC of its record batch is wrong.",
                    )
                yield batch
                offset = batch.next_offset

    def close(self, now_ms: int) -> None:
        """Close the log properly. On a disk that has failed it stays as a crash would leave it."""
        log_dir = self._log.log_dir
        if not log_dir.is_online:
            return
        try:
            self._log.close(now_ms)
        except ResourcesExhaustedError as error:
            log_dir.has_unclosed_log = True
            _log.warning("The metadata log stays as a crash would leave it: %s", error)
        except KafkaError:
            # Whoever watches the directory has been told why it failed.
            if log_dir.is_online:
                raise
