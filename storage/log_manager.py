"""All logs of this broker, over all its log directories: loading, making, deleting, housekeeping.

A directory's life: it is locked and checked against `meta.properties`, its clean-shutdown marker is
read and removed, its checkpoints say where each log starts and how far it is durable, and each
sub-directory named `topic-partition` becomes a log. While the broker runs, the layer above calls
the housekeeping here on its timers. At the end every log is closed, the checkpoints are written,
and the marker comes last: only a directory in which nothing went wrong gets it.

A directory whose disk fails goes offline alone; its logs answer KAFKA_STORAGE_ERROR and the others
go on (KIP-112). The cluster metadata log lives in a directory too, but has its own owner
(Kafka's `LogManager`).
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..clients.errors import ErrorCode, KafkaError
from ..clients.kafka_uuid import ZERO_UUID, Uuid
from ..clients.topic_partition import TopicPartition
from .checkpoint import (
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpointError,
    read_offset_checkpoint,
    read_partition_metadata,
    write_offset_checkpoint,
    write_partition_metadata,
)
from .config import LogConfig
from .files import Files
from .local_log import FlushTask
from .log_dir import UNKNOWN_BROKER_EPOCH, FailureListener, LogDir, LogDirError, MetaProperties
from .log_file import (
    DELETE_DIRECTORY_SUFFIX,
    deleted_directory_name,
    parse_partition_directory,
    partition_directory_name,
)
from .log_loader import LoadRequest, load_log
from .unified_log import UnifiedLog

_NOT_OURS = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class _Checkpoints:
    """What a directory's checkpoint files said at the start."""

    recovery_points: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]


class LogManager:
    """See the top of this file. Call `open_directories`, then `start`, at the end `shutdown`."""

    def __init__(
        self,
        files: Files,
        log_dirs: Sequence[str],
        default_config: LogConfig,
        producer_expiration_ms: int = 86_400_000,
    ) -> None:
        assert log_dirs
        self.files = files
        self.default_config = default_config
        self.log_dirs = [LogDir(files, path) for path in log_dirs]
        self._producer_expiration_ms = producer_expiration_ms
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._last_flush_ms: dict[TopicPartition, int] = {}
        self._directories_to_delete: list[tuple[int, LogDir, str]] = []

    # -- Starting -----------------------------------------------------------------------------

    def open_directories(
        self, cluster_id: str, node_id: int, new_directory_id: Callable[[], Uuid]
    ) -> list[MetaProperties]:
        """Lock every directory and see that it belongs to this cluster and node.

        A new directory is given an id. Raises LogDirError if a directory is in use, or of another
        cluster or node.
        """
        found: list[MetaProperties] = []
        for log_dir in self.log_dirs:
            log_dir.acquire()
            meta = log_dir.read_meta_properties()
            if meta is None:
                meta = MetaProperties(cluster_id, node_id, new_directory_id())
                log_dir.write_meta_properties(meta)
            if meta.cluster_id != cluster_id or meta.node_id != node_id:
                raise LogDirError(
                    f"{log_dir.path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
                    f"not to node {node_id} of cluster {cluster_id}."
                )
            found.append(meta)
        return found

    def stored_cluster_id(self) -> str | None:
        """The cluster that the directories were first used for; None if all are new."""
        for log_dir in self.log_dirs:
            meta = log_dir.read_meta_properties()
            if meta is not None:
                return meta.cluster_id
        return None

    def logs_of_others(self, topics: Container[str]) -> Iterator[tuple[str, Uuid]]:
        """Directories of logs that none of these topics has, and whose they say they are.

        To be asked before `start`. A log that does not say whose it is is left out.
        """
        for log_dir in self.log_dirs:
            try:
                yield from self._logs_of_others(log_dir, topics)
            except OSError:
                # `start` meets the same disk, and tells whoever listens by then.
                continue

    def _logs_of_others(
        self, log_dir: LogDir, topics: Container[str]
    ) -> Iterator[tuple[str, Uuid]]:
        for name in self.files.listdir(log_dir.path):
            topic_partition = parse_partition_directory(name)
            if topic_partition is None or topic_partition.topic in topics:
                continue
            directory = f"{log_dir.path}/{name}"
            if topic_partition.topic != _NOT_OURS and self.files.is_directory(directory):
                # One that cannot be read is for `start` to judge.
                topic_id = self._read_topic_id(directory, may_be_damaged=True)
                if topic_id != ZERO_UUID:
                    yield directory, topic_id

    def start(self, now_ms: int, topic_configs: Mapping[str, LogConfig] | None = None) -> None:
        """Load every log that the directories hold.

        Topics without a configuration of their own get the default. Raises LogDirError if two
        directories hold the same partition. A directory that fails is offline afterwards.
        """
        configs = topic_configs or {}
        for log_dir in self.log_dirs:
            try:
                self._load_directory(log_dir, configs, now_ms)
            except OSError as error:
                log_dir.fail(error)
            except KafkaError as error:
                # Only the disk's own failure is answered by going on without the directory.
                if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                    raise

    def _load_directory(
        self, log_dir: LogDir, configs: Mapping[str, LogConfig], now_ms: int
    ) -> None:
        self.files.mkdirs(log_dir.path)
        had_clean_shutdown = log_dir.has_clean_shutdown_marker()
        log_dir.remove_clean_shutdown_marker()
        checkpoints = self._read_checkpoints(log_dir)
        for name in self.files.listdir(log_dir.path):
            directory = f"{log_dir.path}/{name}"
            if name.endswith(DELETE_DIRECTORY_SUFFIX):
                self._directories_to_delete.append((now_ms, log_dir, directory))
                continue
            topic_partition = parse_partition_directory(name)
            if topic_partition is None or topic_partition.topic == _NOT_OURS:
                continue
            if not self.files.is_directory(directory):
                continue
            if topic_partition in self._logs:
                raise LogDirError(
                    f"{topic_partition} has a log in {log_dir.path} and another in "
                    f"{self._logs[topic_partition].log_dir.path}: remove the stale one."
                )
            recovery_point = checkpoints.recovery_points.get(topic_partition, 0)
            # Only a log that was never flushed may have lost its name in a crash.
            may_be_damaged = recovery_point == 0 and not had_clean_shutdown
            topic_id = self._read_topic_id(directory, may_be_damaged)
            request = LoadRequest(
                topic_partition,
                topic_id,
                directory,
                configs.get(topic_partition.topic, self.default_config),
                checkpoints.log_starts.get(topic_partition, 0),
                recovery_point,
                had_clean_shutdown,
                self._producer_expiration_ms,
            )
            log = load_log(log_dir, request, now_ms)
            log.update_high_watermark(checkpoints.high_watermarks.get(topic_partition, 0))
            self._add(log, now_ms)

    def _read_topic_id(self, directory: str, may_be_damaged: bool) -> Uuid:
        try:
            path = f"{directory}/{PARTITION_METADATA_FILE}"
            topic_id = read_partition_metadata(self.files, path)
        except MalformedCheckpointError as error:
            if may_be_damaged:
                return ZERO_UUID
            raise LogDirError(f"Whose log this is cannot be told: {error}") from error
        return ZERO_UUID if topic_id is None else topic_id

    def _read_checkpoints(self, log_dir: LogDir) -> _Checkpoints:
        def read(name: str) -> Mapping[TopicPartition, int]:
            try:
                return read_offset_checkpoint(self.files, f"{log_dir.path}/{name}")
            except MalformedCheckpointError:
                # A damaged checkpoint costs a longer recovery and nothing else: 0 is always safe.
                return {}

        return _Checkpoints(
            read(RECOVERY_POINT_FILE), read(LOG_START_FILE), read(HIGH_WATERMARK_FILE)
        )

    def _add(self, log: UnifiedLog, now_ms: int) -> None:
        self._logs[log.topic_partition] = log
        self._last_flush_ms[log.topic_partition] = now_ms

    # -- Looking up, making, deleting ---------------------------------------------------------

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.get(topic_partition)

    def all_logs(self) -> list[UnifiedLog]:
        return list(self._logs.values())

    def get_or_create_log(
        self, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig, now_ms: int
    ) -> UnifiedLog:
        """The partition's log, made in the directory with the fewest logs if there is none.

        Raises KafkaError: INCONSISTENT_TOPIC_ID if the log belongs to another topic of the name,
        KAFKA_STORAGE_ERROR.
        """
        log = self._logs.get(topic_partition)
        if log is None:
            log = self._create(topic_partition, topic_id, config, now_ms)
            self._add(log, now_ms)
        elif log.topic_id == ZERO_UUID and topic_id != ZERO_UUID:
            self._write_metadata(log.log_dir, log.directory, topic_id)
            log.topic_id = topic_id
        elif log.topic_id != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"The log of {topic_partition} belongs to another topic of that name.",
            )
        log.update_config(config)
        return log

    def _create(
        self, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig, now_ms: int
    ) -> UnifiedLog:
        log_dir = self._emptiest_directory()
        directory = f"{log_dir.path}/{partition_directory_name(topic_partition)}"
        try:
            # Nothing of a new log is synced before its first flush: making a hundred of them
            # must not wait for the disk three hundred times.
            self.files.mkdirs(directory)
            path = f"{directory}/{PARTITION_METADATA_FILE}"
            write_partition_metadata(self.files, path, topic_id, durable=False)
        except OSError as error:
            raise log_dir.fail(error) from error
        request = LoadRequest(
            topic_partition,
            topic_id,
            directory,
            config,
            producer_expiration_ms=self._producer_expiration_ms,
        )
        log = load_log(log_dir, request, now_ms)
        log.local.sync_with_next_flush(partial(self._sync_new_log, log_dir, path))
        return log

    def _sync_new_log(self, log_dir: LogDir, metadata_path: str) -> None:
        handle = self.files.open(metadata_path)
        handle.flush()
        handle.close()
        self.files.sync_dir(log_dir.path)

    def _write_metadata(self, log_dir: LogDir, directory: str, topic_id: Uuid) -> None:
        try:
            path = f"{directory}/{PARTITION_METADATA_FILE}"
            write_partition_metadata(self.files, path, topic_id)
        except OSError as error:
            raise log_dir.fail(error) from error

    def _emptiest_directory(self) -> LogDir:
        online = [log_dir for log_dir in self.log_dirs if log_dir.is_online]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "Every log directory is offline.")
        if len(online) == 1:
            return online[0]
        counts = {log_dir.path: 0 for log_dir in self.log_dirs}
        for log in self._logs.values():
            counts[log.log_dir.path] += 1
        return min(online, key=lambda log_dir: counts[log_dir.path])

    def delete_log(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Take a log away: its directory is renamed now and removed after file.delete.delay.ms.

        Raises KafkaError(KAFKA_STORAGE_ERROR). A partition without a log is no error.
        """
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return
        del self._last_flush_ms[topic_partition]
        log.release()
        log_dir = log.log_dir
        log_dir.check()
        unique_id = f"{log.topic_id.hex()}{now_ms:x}"
        doomed = f"{log_dir.path}/{deleted_directory_name(topic_partition, unique_id)}"
        try:
            self.files.rename(log.directory, doomed)
            self.files.sync_dir(log_dir.path)
        except OSError as error:
            raise log_dir.fail(error) from error
        due_ms = now_ms + log.config.file_delete_delay_ms
        self._directories_to_delete.append((due_ms, log_dir, doomed))

    # -- Failure ------------------------------------------------------------------------------

    def on_log_dir_failure(self, listener: FailureListener) -> None:
        """Have `listener` called when a directory goes offline."""
        for log_dir in self.log_dirs:
            log_dir.on_failure = listener

    @property
    def online_directories(self) -> list[LogDir]:
        return [log_dir for log_dir in self.log_dirs if log_dir.is_online]

    def _online_logs(self) -> list[UnifiedLog]:
        return [log for log in self._logs.values() if log.log_dir.is_online]

    # -- Housekeeping -------------------------------------------------------------------------

    def cleanup_logs(self, now_ms: int) -> int:
        """Obey every log's retention; answers how many segments went (log.retention.check)."""
        return self._for_each(lambda log: log.delete_old_segments(now_ms))

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget idle producers (producer.id.expiration.check.interval.ms)."""
        for log in self._logs.values():
            log.producers.remove_expired(now_ms)

    def delete_pending(self, now_ms: int) -> None:
        """Remove the files of deleted segments and logs whose delay is over."""
        self._for_each(lambda log: log.delete_pending(now_ms))
        waiting: list[tuple[int, LogDir, str]] = []
        for due_ms, log_dir, directory in self._directories_to_delete:
            if due_ms > now_ms or not log_dir.is_online:
                waiting.append((due_ms, log_dir, directory))
                continue
            try:
                self.files.remove_tree(directory)
            except OSError as error:
                log_dir.fail(error)
        self._directories_to_delete = waiting

    def flush_tasks(self, now_ms: int) -> list[tuple[UnifiedLog, FlushTask]]:
        """What is to be fsynced now: closed segments, and logs whose flush.ms is over.

        Run each task in a thread, then call `log.complete_flush(task)` in this one; on OSError
        `log.log_dir.fail(error)`.
        """
        tasks: list[tuple[UnifiedLog, FlushTask]] = []
        for log in self._online_logs():
            waited_ms = now_ms - self._last_flush_ms[log.topic_partition]
            is_due = waited_ms >= log.config.flush_ms
            task = log.prepare_flush(None if is_due else log.local.active_segment.base_offset)
            if is_due:
                self._last_flush_ms[log.topic_partition] = now_ms
            if task is not None:
                tasks.append((log, task))
        return tasks

    def flush_dirty_logs(self, now_ms: int) -> None:
        """Run `flush_tasks` here and now."""
        for log, task in self.flush_tasks(now_ms):
            try:
                task.run()
            except OSError as error:
                log.log_dir.fail(error)
            else:
                log.complete_flush(task)

    def checkpoint_recovery_points(self) -> None:
        """Write how far each log is durable: the next start reads only what lies above."""
        self._checkpoint(RECOVERY_POINT_FILE, lambda log: log.recovery_point)

    def checkpoint_log_start_offsets(self) -> None:
        """Write where logs start that do not start with their first segment (KAFKA-16146)."""
        self._checkpoint(
            LOG_START_FILE,
            lambda log: (
                log.log_start_offset
                if log.is_tiered or log.log_start_offset > log.local.segments.first.base_offset
                else None
            ),
        )

    def checkpoint_high_watermarks(self) -> None:
        """Write each log's high watermark (replica.high.watermark.checkpoint.interval.ms)."""
        self._checkpoint(HIGH_WATERMARK_FILE, lambda log: log.high_watermark)

    def _checkpoint(self, name: str, offset_of: Callable[[UnifiedLog], int | None]) -> None:
        for log_dir in self.online_directories:
            offsets = {
                log.topic_partition: offset
                for log in self._logs_of(log_dir)
                if (offset := offset_of(log)) is not None
            }
            try:
                write_offset_checkpoint(self.files, f"{log_dir.path}/{name}", offsets)
            except OSError as error:
                log_dir.fail(error)

    def _logs_of(self, log_dir: LogDir) -> Iterable[UnifiedLog]:
        return [log for log in self._logs.values() if log.log_dir is log_dir]

    def _for_each(self, work: Callable[[UnifiedLog], int]) -> int:
        """Do it to every online log; a log that takes its directory offline ends only itself."""
        total = 0
        for log in self._online_logs():
            try:
                total += work(log)
            except KafkaError:
                # The directory's listener knows already.
                if log.log_dir.is_online:
                    raise
        return total

    # -- The end ------------------------------------------------------------------------------

    def shutdown(self, now_ms: int, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Close every log and leave the marker by which the next start skips recovery."""

        def close(log: UnifiedLog) -> int:
            log.close(now_ms)
            return 1

        self._for_each(close)
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()
        for log_dir in self.log_dirs:
            if log_dir.is_online:
                try:
                    log_dir.write_clean_shutdown_marker(broker_epoch)
                except OSError as error:
                    log_dir.fail(error)
            log_dir.release()
        self._logs.clear()
