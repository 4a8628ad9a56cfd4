"""`__cluster_metadata-0`: the log that holds the cluster's state (KIP-500, KIP-595).

It is an ordinary log in the metadata log directory, but only the quorum writes to it. An epoch
begins with a LeaderChange control record; a batch of records is one atomic change of state.

Rules:

- a record is committed only when it is on the disk: the high watermark advances after the flush,
  immediately with one voter (stricter than Kafka's leader);
- the epoch rises at every start and is on the disk before anything is written in it;
- a start loads the newest snapshot and replays the log after it (see `log_snapshots.py`), which
  a sole voter does at once, and a member of a larger quorum as far as the quorum has committed it;
- records between BeginTransaction and EndTransaction take effect atomically (KIP-868).
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.schema import Message
from ...clients.record.control import ControlRecordType
from ...clients.runtime.environment import Environment
from ...clients.topic_partition import TopicPartition
from ...storage.checkpoint import PARTITION_METADATA_FILE, write_partition_metadata
from ...storage.config import LogConfig
from ...storage.directory.log_dir import LogDir, LogDirError, ResourcesExhaustedError
from ...storage.files import Files
from ...storage.log.unified_log import UnifiedLog
from ...storage.manager.log_dirs import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID
from ...storage.manager.log_loader import LoadRequest, load_log
from ...storage.producer.producer_entry import AppendOrigin
from ..quorum.control_records import sole_voter_batch
from ..raft.election_state import (
    QUORUM_STATE_FILE,
    ElectionState,
    read_election_state,
    write_election_state,
)
from ..raft.voter_set import VoterKey
from .committed_reader import CommittedReader, CommittedRecords, decoded, metadata_batches
from .durable_end import refuse_to_cut, write_durable_end
from .log_snapshots import LogSnapshots, find_snapshots
from .metadata_log_config import MetadataLogConfig
from .metadata_records import TopicRecord, change_batch
from .snapshot_format import QUORUM_RECORDS, SNAPSHOT_SUFFIX, QuorumRecord, SnapshotId

if TYPE_CHECKING:
    from ...storage.log.local_log import FlushTask
    from ..raft.voter_set import VoterSet
    from .raft_storage import RaftStorage

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)

_DEFAULTS = MetadataLogConfig()

_log = logging.getLogger(__name__)


def open_metadata_log(
    log_dir: LogDir,
    node_id: int,
    now_ms: int,
    *,
    had_clean_shutdown: bool = False,
    config: MetadataLogConfig = _DEFAULTS,
) -> "MetadataLog":
    """Open or create the metadata log in a directory.

    Without a clean shutdown every batch is checked again and a torn tail is truncated. Raises
    KafkaError(KAFKA_STORAGE_ERROR), or LogDirError if that would truncate flushed records, or if
    the log's beginning is gone and no snapshot replaces it, or for a snapshot of another cluster.
    """
    directory = f"{log_dir.path}/{METADATA_PARTITION}"
    log_dir.check()
    try:
        _make_directory(log_dir.files, log_dir.path, directory)
        state = read_election_state(log_dir.files, f"{directory}/{QUORUM_STATE_FILE}")
        snapshots, newest = find_snapshots(log_dir.files, directory)
        covered = 0 if newest is None else newest.snapshot_id.offset
        refuse_to_cut(log_dir.files, directory, state.epoch, covered)
    except OSError as error:
        raise log_dir.fail(error) from error
    request = LoadRequest(
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        directory,
        LogConfig(
            cleanup_policy=(),
            max_message_bytes=8 * 1024 * 1024,
            retention_ms=-1,
            retention_bytes=-1,
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
        ),
        had_clean_shutdown=had_clean_shutdown,
    )
    log = load_log(log_dir, request, now_ms)
    if newest is not None:
        _refuse_foreign(log, newest.snapshot_id, state.epoch)
    return MetadataLog(
        log, log_dir.files, node_id, LogSnapshots(log, log_dir.files, snapshots, newest, now_ms)
    )


def _refuse_foreign(log: UnifiedLog, snapshot_id: SnapshotId, quorum_epoch: int) -> None:
    """Raise LogDirError for a snapshot of a leader later than any that this node knows of.

    The log would be truncated to it. A node that has lost its `quorum-state` knows of none.
    """
    if snapshot_id.epoch > max(quorum_epoch, log.leader_epochs.latest_epoch) and quorum_epoch > 0:
        raise LogDirError(
            f"The snapshot {log.directory}/{snapshot_id}{SNAPSHOT_SUFFIX} is of epoch "
            f"{snapshot_id.epoch}, but the quorum has only been at epoch {quorum_epoch}: it may be "
            f"a file of another cluster. Move it away, or restore {QUORUM_STATE_FILE}."
        )


def _make_directory(files: Files, parent: str, directory: str) -> None:
    """Create the directory and its `partition.metadata`, synced before the log is opened."""
    if not files.is_directory(directory):
        files.mkdirs(directory)
        files.sync_dir(parent)
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not files.exists(path):
        write_partition_metadata(files, path, METADATA_TOPIC_ID)


class MetadataLog:
    """The metadata log of a node.

    What becomes leader, appends and flushes here is the only voter; a quorum of several nodes
    writes through `raft_storage`.
    """

    def __init__(
        self, log: UnifiedLog, files: Files, node_id: int, snapshots: LogSnapshots
    ) -> None:
        self._log = log
        self.snapshots = snapshots
        self._files = files
        self._node_id = node_id
        self._state_path = f"{log.directory}/{QUORUM_STATE_FILE}"
        self._state = read_election_state(files, self._state_path)
        self.reader = CommittedReader(log, log.log_start_offset)
        """What has been replayed of the log; a standby goes on with it."""
        # The offset from which `replay` has read the log; what is before it was in a snapshot.
        self._replayed_from = log.log_start_offset

    @property
    def directory(self) -> str:
        return self._log.directory

    @property
    def epoch(self) -> int:
        return self._state.epoch

    @property
    def state(self) -> ElectionState:
        return self._state

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.log_end_offset

    @property
    def start_offset(self) -> int:
        """The offset of the first record, below which there is a snapshot; or 0."""
        return self._log.log_start_offset

    @property
    def high_watermark(self) -> int:
        """The end of the committed records."""
        return self._log.high_watermark

    def raft_storage(self, environment: Environment) -> "RaftStorage":
        """This log as a quorum of several voters uses it."""
        from .raft_storage import RaftStorage

        return RaftStorage(self._log, self._files, self.snapshots, environment, self._state)

    def become_leader(self, now_ms: int) -> None:
        """Begin the next epoch: sync the epoch, append its first record. Call `flush` after it.

        The new leader then aborts a transaction that the last leader left open. Raises LogDirError
        if the log has other voters.
        """
        # The file may be lost, or older than the log: an epoch has one leader, and never falls.
        epoch = max(self._state.epoch, self.snapshots.last_epoch) + 1
        own_id = self._node_id
        self._refuse_other_voters()
        self._state = ElectionState(epoch, own_id, voter_ids=(own_id,))
        write_election_state(self._files, self._state_path, self._state, 0)
        self._append(sole_voter_batch(VoterKey(own_id), now_ms), now_ms)

    def _refuse_other_voters(self) -> None:
        """Raise LogDirError if the log, or its first snapshot, names another voter.

        A node whose file names only itself would otherwise lead without the others' votes.
        """
        voter_ids = {*self._state.voter_ids, *self._dynamic_voter_ids()}
        if voter_ids - {self._node_id}:
            raise LogDirError(
                f"The metadata log in {self._log.directory} has the voters"
                f" {', '.join(map(str, sorted(voter_ids)))}, but the properties name only node"
                f" {self._node_id}: list all controllers in controller.quorum.voters, or in"
                " controller.quorum.bootstrap.servers if they are dynamic."
            )

    def _dynamic_voter_ids(self) -> Sequence[int]:
        """The voters that are records, if there are any."""
        quorum = self.quorum_records
        first = f"{self._log.directory}/{SnapshotId(0, 0)}{SNAPSHOT_SUFFIX}"
        if not quorum and not self._files.exists(first):
            return ()
        # Not imported by the start of a node with a static voter.
        from .bootstrap_snapshot import read_first_snapshot, recorded_voters

        voters = recorded_voters(quorum)
        if voters is None:
            content = read_first_snapshot(self._files, self._log.directory)
            voters = None if content is None else recorded_voters(content.quorum)
        return () if voters is None else voters.ids

    def append(self, records: Sequence[Message], now_ms: int) -> int:
        """Append one change of state and return its last offset. It is not committed yet."""
        return self._append(change_batch(records, now_ms), now_ms)

    def _append(self, batch: bytearray, now_ms: int) -> int:
        info = self._log.append_as_leader(
            memoryview(batch), self._state.epoch, now_ms, AppendOrigin.RAFT_LEADER
        )
        return info.last_offset

    def prepare_flush(self) -> "FlushTask | None":
        """The pending fsync, if any: run it in a thread, then call `complete_flush`."""
        return self._log.prepare_flush()

    def run_flush(self, task: "FlushTask") -> None:
        """Run the fsync in any thread and record the flushed offset. Raises OSError."""
        task.run()
        write_durable_end(self._files, self._log.directory, task.offset, self.epoch)

    def fail_flush(self, error: OSError) -> KafkaError:
        """The error to raise for a failed fsync. A disk error takes the directory offline."""
        return self._log.log_dir.fail(error)

    def complete_flush(self, task: "FlushTask") -> None:
        """Commit everything below the offset of a finished fsync."""
        self._log.complete_flush(task)
        self._log.update_high_watermark(task.offset)

    def flush(self) -> None:
        """Sync everything now. With one voter, this commits it."""
        self._log.flush()
        write_durable_end(self._files, self._log.directory, self._log.log_end_offset, self.epoch)
        self._log.update_high_watermark(self._log.log_end_offset)

    def has_lost(self, topic_id: Uuid) -> bool:
        """Whether the record that created this topic, which has a log, is missing.

        A log is created only after its topic is committed, so committed records have then been
        lost. Not known if the beginning of the log is gone. Call it after `replay`.
        """
        if self._log.log_start_offset > 0:
            return False
        created = self.reader.created_topics
        if topic_id not in created and self._replayed_from > 0:
            self._note_topics_before(self._replayed_from)
            self._replayed_from = 0
        return topic_id not in created

    def _note_topics_before(self, offset: int) -> None:
        """Find the topics created below a snapshot, which has no records of deleted ones."""
        for batch in metadata_batches(self._log, self._log.log_start_offset, offset):
            for record in () if batch.is_control else batch.records():
                message = decoded(self._log, record.value or b"", batch)
                if isinstance(message, TopicRecord):
                    self.reader.created_topics.add(message.topic_id)

    @property
    def is_in_transaction(self) -> bool:
        """Whether what has been replayed ends within a metadata transaction."""
        return self.reader.is_in_transaction

    @property
    def is_between_changes(self) -> bool:
        """Whether the image of what is committed is all that has been read of the log."""
        return not (self.reader.is_in_transaction or self.reader.is_ahead)

    @property
    def quorum_records(self) -> list[QuorumRecord]:
        """The last records on the quorum's version and voters, which a snapshot must repeat."""
        values = self.reader.quorum_records
        return [QuorumRecord(kind, values[kind]) for kind in QUORUM_RECORDS if kind in values]

    def reader_at(self, offset: int) -> CommittedReader:
        """A second reader, from an offset outside of any metadata transaction."""
        return CommittedReader(self._log, offset)

    def replay(self) -> Iterator[CommittedRecords]:
        """Every change of state, oldest first, for the only voter to apply before it serves.

        The newest snapshot replaces the log before it. Records left by the previous run are
        committed too once the new leader has flushed. Raises KafkaError(INVALID_RECORD,
        CORRUPT_MESSAGE) for a log that cannot be read.
        """
        yield from self.replay_snapshot()
        yield from self.reader.read(self._log.log_end_offset)

    def replay_snapshot(self) -> Iterator[CommittedRecords]:
        """The records of the newest snapshot after a start or a load; nothing if there is none.

        All of it is committed; the quorum decides how far the log after it is. Each snapshot is
        replayed once. Raises KafkaError(INVALID_RECORD).
        """
        content = self.snapshots.take_newest()
        if content is None:
            return
        offset, epoch = content.snapshot_id
        for records in ((), *content.records()):
            topics = (record for record in records if isinstance(record, TopicRecord))
            self.reader.created_topics.update(topic.topic_id for topic in topics)
            yield CommittedRecords(records, offset - 1, epoch)
        self.reader.quorum_records.update(content.quorum)
        self.reader.skip_to(offset)
        self._replayed_from = offset

    def voter_sets(self) -> "Iterator[tuple[int, VoterSet]]":
        """The Voters records that stand in the newest snapshot and in the log after it.

        With their offsets, in order, whether committed or not, for `RaftCore.handle_voters` before
        the quorum starts. The voters of a snapshot count from the last offset in it. A quorum of
        static voters has none. Raises KafkaError(CORRUPT_MESSAGE).
        """
        from ..quorum.control_records import decode_voters, voter_sets

        offset, quorum = self.snapshots.loaded_quorum
        for record in quorum:
            if record.type is ControlRecordType.KRAFT_VOTERS:
                yield offset - 1, decode_voters(record.value)
        start = max(offset, self._log.log_start_offset)
        for batch in metadata_batches(self._log, start, self._log.log_end_offset):
            yield from voter_sets(batch)

    def close(self, now_ms: int) -> None:
        """Close the log cleanly. On a failed disk it is left as after a crash."""
        log_dir = self._log.log_dir
        if not log_dir.is_online:
            return
        try:
            self._log.close(now_ms)
        except ResourcesExhaustedError as error:
            log_dir.has_unclosed_log = True
            _log.warning("Could not close the metadata log; the next start recovers it: %s", error)
        except KafkaError:
            # The directory's failure has already been reported.
            if log_dir.is_online:
                raise
