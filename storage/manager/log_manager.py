"""Loads, creates, deletes and maintains the logs in all log directories (Kafka's `LogManager`).

At startup each directory is opened (`log_dirs.py`), its clean-shutdown marker is read and removed,
each log's start offset and recovery point are read from the checkpoints, and each sub-directory
named `topic-partition` is loaded as a log. While the broker runs, the layer above calls the
housekeeping methods on its timers. At shutdown every log is closed, then the checkpoints are
written, and last the marker, which is written only in a directory without failures.

A partition has one log. While the log moves to another directory, the partition also has a future
log there, which replaces the current log once it has caught up (KIP-113, `future_logs.py`).

If a disk fails, only its directory goes offline: its logs raise KAFKA_STORAGE_ERROR, and the others
continue (KIP-112). The cluster metadata log is in a log directory too, but is not managed here.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from ...clients.topic_partition import TopicPartition
from ..config import LogConfig
from ..directory.log_dir import UNKNOWN_BROKER_EPOCH, LogDir, LogDirError
from ..files import Files
from ..log.local_log import FlushTask
from ..log.unified_log import UnifiedLog
from ..log_file import (
    DELETE_DIRECTORY_SUFFIX,
    future_directory_name,
    parse_future_directory,
    parse_partition_directory,
    partition_directory_name,
)
from .clean_shutdown import CleanShutdown
from .due_deletions import Deletion, due_deletions
from .future_logs import FutureLogs, Takeover, adopt_state, reopen
from .log_dirs import CLUSTER_METADATA_TOPIC, LogDirs
from .log_loader import LoadRequest, load_log
from .log_placement import LogPlacement
from .offset_checkpoints import OffsetCheckpoints
from .partition_directory import (
    DoomedDirectories,
    make_log,
    read_topic_id,
    set_aside,
    write_topic_id,
)

_log = logging.getLogger(__name__)

MoveListener = Callable[[UnifiedLog, UnifiedLog], None]


class LogManager:
    """The logs of a broker. Open its `directories`, call `start`, and finally `shutdown`."""

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
        self.directories = LogDirs(files, log_dirs)
        self.log_dirs = self.directories.all
        self.producer_expiration_ms = producer_expiration_ms
        """`producer.id.expiration.ms`; may be changed at any time."""
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._last_flush_ms: dict[UnifiedLog, int] = {}
        self._checkpoints = {log_dir: OffsetCheckpoints(log_dir) for log_dir in self.log_dirs}
        self._doomed = DoomedDirectories(files)
        self.recovered = 0
        """How many logs were recovered at startup after an unclean shutdown."""
        self.placement = LogPlacement(self.log_dirs)
        self._move_listeners: list[MoveListener] = []
        self.future_logs = FutureLogs()
        """The future logs of partitions that are moving to another directory."""

    def start(self, now_ms: int, topic_configs: Mapping[str, LogConfig] | None = None) -> None:
        """Load every log in the directories.

        Topics without configuration overrides get the default configuration. Raises LogDirError if
        two directories have a log of the same partition. A directory whose disk fails is offline
        afterwards.
        """
        configs = topic_configs or {}
        for log_dir in self.directories.online:
            try:
                self._load_directory(log_dir, configs, now_ms)
            except OSError as error:
                failure = log_dir.fail(error)
                if log_dir.is_online:
                    raise failure from error
            except KafkaError:
                # Startup continues without the directory only if the disk has failed.
                if log_dir.is_online:
                    raise

    def _load_directory(
        self, log_dir: LogDir, configs: Mapping[str, LogConfig], now_ms: int
    ) -> None:
        self.files.mkdirs(log_dir.path)
        had_clean_shutdown = log_dir.take_clean_shutdown_marker()
        self._checkpoints[log_dir].read()
        names = self.files.listdir(log_dir.path)
        if not had_clean_shutdown and any(map(_may_hold_log, names)):
            _log.info(
                "Recovering the logs in %s since no clean shutdown file was found", log_dir.path
            )
        for name in names:
            directory = f"{log_dir.path}/{name}"
            if name.endswith(DELETE_DIRECTORY_SUFFIX):
                self._doomed.note(log_dir, directory, now_ms)
                continue
            moved = parse_future_directory(name)
            topic_partition = moved or parse_partition_directory(name)
            if topic_partition is None or topic_partition.topic == CLUSTER_METADATA_TOPIC:
                continue
            if not self.files.is_directory(directory):
                continue
            other = (self.future_logs.get if moved else self._logs.get)(topic_partition)
            if other is not None:
                raise LogDirError(
                    f"{topic_partition} has a log in {log_dir.path} and another in "
                    f"{other.log_dir.path}: remove the stale one."
                )
            config = configs.get(topic_partition.topic, self.default_config)
            request = self._load_request(log_dir, topic_partition, directory, had_clean_shutdown)
            log = load_log(log_dir, replace(request, config=config), now_ms)
            checkpointed = self._checkpoints[log_dir].high_watermarks
            log.update_high_watermark(checkpointed.get(topic_partition, 0))
            self._add(log, now_ms, is_future=moved is not None)
            if not had_clean_shutdown:
                self._log_recovered(log, request.recovery_point)

    def _log_recovered(self, log: UnifiedLog, recovery_point: int) -> None:
        """Report the recovered offsets, unless the log ends at its recovery point."""
        if log.log_end_offset > recovery_point:
            self.recovered += 1
            _log.info(
                "Recovered %s from offset %d to %d",
                log.topic_partition,
                recovery_point,
                log.log_end_offset,
            )

    def _load_request(
        self, log_dir: LogDir, topic_partition: TopicPartition, directory: str, was_clean: bool
    ) -> LoadRequest:
        """The request to load a log that exists at startup."""
        checkpoints = self._checkpoints[log_dir]
        recovery_point = checkpoints.recovery_points.get(topic_partition, 0)
        # A crash can damage partition.metadata only in a log that was never flushed.
        may_be_damaged = recovery_point == 0 and not was_clean
        return LoadRequest(
            topic_partition,
            read_topic_id(self.files, directory, may_be_damaged),
            directory,
            self.default_config,
            checkpoints.log_starts.get(topic_partition, 0),
            recovery_point,
            was_clean,
            self.producer_expiration_ms,
            was_compacted=topic_partition in checkpoints.cleaned,
        )

    def _add(self, log: UnifiedLog, now_ms: int, *, is_future: bool = False) -> None:
        if is_future:
            self.future_logs.add(log)
        else:
            self._logs[log.topic_partition] = log
        self._last_flush_ms[log] = now_ms

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.get(topic_partition)

    def all_logs(self) -> list[UnifiedLog]:
        return list(self._logs.values())

    def producer_ids_from(self, first: int) -> list[int]:
        """The producer ids from `first` on that have written to a log."""
        writers = {producer_id for log in self._both() for producer_id in log.producers.entries}
        return sorted(producer_id for producer_id in writers if producer_id >= first)

    def get_or_create_log(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        now_ms: int,
        directory_id: Uuid | None = None,
    ) -> UnifiedLog:
        """The partition's log, created if there is none.

        The cluster metadata expects the log in `directory_id`, see `log_placement.py`. Raises
        KafkaError: INCONSISTENT_TOPIC_ID if the log belongs to another topic of that name;
        KAFKA_STORAGE_ERROR also if the log may exist in an offline directory.
        """
        log = self._logs.get(topic_partition)
        if log is None:
            log_dir = self.placement.directory_for(topic_partition, directory_id, self._both)
            name = partition_directory_name(topic_partition)
            log = self._make(log_dir, name, topic_partition, topic_id, config, now_ms)
            self._add(log, now_ms)
        elif log.topic_id == ZERO_UUID and topic_id != ZERO_UUID:
            write_topic_id(log, topic_id)
        elif log.topic_id != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"The log of {topic_partition} belongs to another topic of the same name.",
            )
        log.update_config(config)
        return log

    def _make(
        self,
        log_dir: LogDir,
        name: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        now_ms: int,
    ) -> UnifiedLog:
        request = LoadRequest(
            topic_partition,
            topic_id,
            f"{log_dir.path}/{name}",
            config,
            producer_expiration_ms=self.producer_expiration_ms,
        )
        log_dir.check()
        try:
            self._checkpoints[log_dir].forget(topic_partition, self._has_log)
        except OSError as error:
            raise log_dir.fail(error) from error
        return make_log(log_dir, request, now_ms)

    def _has_log(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._logs or self.future_logs.get(topic_partition) is not None

    def delete_log(
        self, topic_partition: TopicPartition, now_ms: int, *, durably: bool = True
    ) -> None:
        """Delete a log: its directory is renamed now and removed after file.delete.delay.ms.

        The partition's future log is deleted too. Does nothing if the partition has no log. For
        many deletions, pass `durably=False` and call `sync_deletions` once at the end. Raises
        KafkaError(KAFKA_STORAGE_ERROR).
        """
        self.placement.forget(topic_partition)
        self.delete_future_log(topic_partition, now_ms)
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            self._give_up(log, now_ms, durably=durably)

    def delete_only(self, log: UnifiedLog, now_ms: int, *, durably: bool = True) -> None:
        """Delete this log but not the partition's other log; see `delete_log`."""
        name = log.topic_partition
        if self.future_logs.get(name) is log:
            self.delete_future_log(name, now_ms)
        elif self._logs.get(name) is log:
            self.placement.forget(name)
            del self._logs[name]
            self._give_up(log, now_ms, durably=durably)

    def sync_deletions(self) -> None:
        """Make earlier deletions durable; see `delete_log`."""
        self._doomed.sync()

    def set_aside(self, log: UnifiedLog, now_ms: int) -> str:
        """Close a log and rename its directory, for an operator to inspect; returns the new path.

        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        if self.future_logs.get(log.topic_partition) is log:
            self.future_logs.pop(log.topic_partition)
        else:
            self.placement.forget(log.topic_partition)
            del self._logs[log.topic_partition]
        del self._last_flush_ms[log]
        log.release()
        log.log_dir.check()
        try:
            return set_aside(log, now_ms)
        except OSError as error:
            raise log.log_dir.fail(error) from error

    def _give_up(self, log: UnifiedLog, now_ms: int, *, durably: bool = True) -> None:
        del self._last_flush_ms[log]
        log.release()
        log.log_dir.check()
        try:
            self._doomed.doom(log, now_ms, durably=durably)
        except OSError as error:
            raise log.log_dir.fail(error) from error

    def create_future_log(
        self, log: UnifiedLog, log_dir: LogDir, unique_id: str, now_ms: int
    ) -> UnifiedLog:
        """Create an empty future log for a partition in another directory.

        Raises KafkaError(KAFKA_STORAGE_ERROR), also while any directory is offline, because that
        directory may already have a future log of the partition.
        """
        offline = [each.path for each in self.log_dirs if not each.is_online]
        if offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {log.topic_partition} because log directories "
                f"{', '.join(offline)} are offline",
            )
        name = future_directory_name(log.topic_partition, unique_id)
        future = self._make(log_dir, name, log.topic_partition, log.topic_id, log.config, now_ms)
        self._add(future, now_ms, is_future=True)
        return future

    def delete_future_log(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Cancel a move. Files on a failed disk are kept; see `delete_log`."""
        future = self.future_logs.pop(topic_partition)
        if future is not None and future.log_dir.is_online:
            self._give_up(future, now_ms)
        elif future is not None:
            del self._last_flush_ms[future]
            future.release()

    def replace_current_with_future(
        self, topic_partition: TopicPartition, now_ms: int
    ) -> UnifiedLog:
        """Replace the current log with the caught-up future log, and return the new log.

        If there is no current log any more, the future log is used as it is. Raises
        KafkaError(KAFKA_STORAGE_ERROR); the current log then stays in use unless its disk failed,
        and the future log may be closed: see `reopen_future_log`.
        """
        current = self._logs.get(topic_partition)
        future = self.future_logs.get(topic_partition)
        assert future is not None
        takeover = Takeover(current, future, self._doomed)
        try:
            if current is not None:
                adopt_state(future, current)
            if not future.local.is_released:
                future.close(now_ms)
            self._checkpoint_logs(future.log_dir)
            log = reopen(future, takeover.rename(now_ms), now_ms)
        except Exception:
            # After any exception, both directories get their old names back.
            takeover.give_back()
            raise
        finally:
            takeover.close(now_ms)
        self.future_logs.pop(topic_partition)
        del self._last_flush_ms[future]
        if current is not None:
            adopt_state(log, current)
            current.release()
            del self._last_flush_ms[current]
        self._add(log, now_ms)
        if current is not None:
            self._checkpoint_logs(current.log_dir)
            for listener in self._move_listeners:
                listener(current, log)
        return log

    def reopen_future_log(self, topic_partition: TopicPartition, now_ms: int) -> UnifiedLog:
        """Reopen a future log that was closed but failed to take over. Raises KafkaError."""
        closed = self.future_logs.get(topic_partition)
        assert closed is not None
        log = reopen(closed, closed.directory, now_ms)
        del self._last_flush_ms[closed]
        self._add(log, now_ms, is_future=True)
        return log

    def on_move(self, listener: MoveListener) -> None:
        """Call `listener` with the old and the new log whenever a future log takes over."""
        self._move_listeners.append(listener)

    def _both(self) -> list[UnifiedLog]:
        """All logs, including future logs."""
        return [*self._logs.values(), *self.future_logs.all()]

    def online_logs(self) -> list[UnifiedLog]:
        """Every log in an online directory, including future logs."""
        return [log for log in self._both() if log.log_dir.is_online]

    def delete_old_segments(self, log: UnifiedLog, now_ms: int) -> int:
        """Apply the log's retention. Returns how many segments it deleted.

        If the disk fails, the log's directory goes offline, which its listeners report.
        """
        try:
            return log.delete_old_segments(now_ms)
        except KafkaError:
            if log.log_dir.is_online:
                raise
            return 0

    def remove_expired_producers(self, log: UnifiedLog, now_ms: int) -> None:
        """Remove the log's idle producers (producer.id.expiration.ms)."""
        log.producers.expiration_ms = self.producer_expiration_ms
        log.producers.remove_expired(now_ms)

    def due_deletions(self, now_ms: int) -> list[Deletion]:
        """Deleted segments and logs whose delay is over; the caller removes their files."""
        return [*due_deletions(self.online_logs(), now_ms), *self._doomed.take_due(now_ms)]

    def delete_pending(self, now_ms: int) -> None:
        """Remove the files of all due deletions now, in this thread."""
        for deletion in self.due_deletions(now_ms):
            deletion.run()

    def flush_task(self, log: UnifiedLog, now_ms: int) -> FlushTask | None:
        """The task to fsync closed segments, or all once flush.ms has passed; None if not needed.

        Run the task in another thread, then call `log.complete_flush(task)` in this one, or
        `log.log_dir.fail(error)` after OSError.
        """
        is_due = now_ms - self._last_flush_ms[log] >= log.config.flush_ms
        if is_due:
            self._last_flush_ms[log] = now_ms
        return log.prepare_flush(None if is_due else log.local.active_segment.base_offset)

    def checkpoint_recovery_points(self) -> None:
        """Write each log's recovery point; the next startup recovers only records above it."""
        for log_dir in self.directories.online:
            self._checkpoints[log_dir].write_recovery_points(self._logs_in(log_dir))

    def checkpoint_log_start_offsets(self) -> None:
        """Write the start offset of each log, unless its first segment shows it."""
        for log_dir in self.directories.online:
            self._checkpoints[log_dir].write_log_starts(self._logs_in(log_dir))

    def checkpoint_high_watermarks(self) -> None:
        """Write each log's high watermark (replica.high.watermark.checkpoint.interval.ms)."""
        for log_dir in self.directories.online:
            self._checkpoints[log_dir].write_high_watermarks(self._logs_in(log_dir))

    def _checkpoint_logs(self, log_dir: LogDir) -> None:
        """Write the checkpoints after a log was added to or removed from a directory."""
        logs = self._logs_in(log_dir)
        self._checkpoints[log_dir].write_recovery_points(logs)
        self._checkpoints[log_dir].write_log_starts(logs)

    def _logs_in(self, log_dir: LogDir) -> list[UnifiedLog]:
        return [log for log in self._both() if log.log_dir is log_dir]

    def shutdown(self, now_ms: int, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Close every log and write the marker with which the next startup skips recovery."""
        closing = self.begin_shutdown(now_ms)
        closing.flush_here()
        self.finish_shutdown(closing, broker_epoch)

    def begin_shutdown(self, now_ms: int) -> CleanShutdown:
        """Begin a shutdown: run the flushes, in any threads, and then call `finish_shutdown`."""
        return CleanShutdown(self.online_logs(), now_ms)

    def finish_shutdown(
        self, closing: CleanShutdown, broker_epoch: int = UNKNOWN_BROKER_EPOCH
    ) -> None:
        """Release all logs, and mark each directory whose logs are all flushed as clean."""
        for log in self._both():
            log.release()
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()
        for log_dir in self.log_dirs:
            if closing.is_clean(log_dir):
                try:
                    log_dir.write_clean_shutdown_marker(broker_epoch)
                except OSError as error:
                    log_dir.fail(error)
            log_dir.release()
        self._logs.clear()
        self.future_logs = FutureLogs()


def _may_hold_log(name: str) -> bool:
    partition = parse_partition_directory(name)
    return partition is not None and partition.topic != CLUSTER_METADATA_TOPIC
