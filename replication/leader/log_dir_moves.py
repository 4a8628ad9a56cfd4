"""Moves replicas from one log directory of this broker to another (KIP-113).

    requested -> the future log is filled, one partition at a time, no faster than
                 replica.alter.log.dirs.io.max.bytes.per.second allows
              -> it has caught up: it is flushed, and its directory reported to the controller
              -> the records appended meanwhile are copied in one go, and the future log takes over

Nothing else runs during the last step, so no record is appended between the last one copied and
the first one appended to the new log. A request for the directory that the replica is already in
cancels the move; a request for a third directory restarts it. A move interrupted by a stop or a
crash resumes by itself (`ReplicaAlterLogDirsManager` and `ReplicaAlterLogDirsThread`).

Rules:

- a move that cannot continue (a disk has failed, the partition is gone) ends without affecting
  others;
- after every wait, the state is checked again before the next step.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from ...clients.errors import KafkaError
from ...clients.runtime.environment import Environment
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicPartition
from ...storage.directory.log_dir import LogDir
from ...storage.manager.future_copy import FutureCopy
from ...storage.manager.log_manager import LogManager
from ...tiering.quota import UNLIMITED, ByteRateQuota
from ..partition.partition import Partition
from .replica_directories import MoveTools

_log = logging.getLogger(__name__)

_COPY_BYTES = 1 << 20
"""The bytes that are read and appended at once (replica.fetch.max.bytes)."""

_LAST_BYTES_MAX = 4 << 20
"""The most bytes that are copied in one go at the end."""

_QUOTA_STEP_S = 1.0
_MOVE = "Move to another log directory"
_RETRY_S = 1.0


class _Move(NamedTuple):
    partition: Partition
    copy: FutureCopy


class LogDirMoves:
    """The moves of one broker."""

    def __init__(
        self,
        tools: MoveTools,
        log_manager: LogManager,
        environment: Environment,
        on_moved: Callable[[Partition], None],
    ) -> None:
        self._tools = tools
        self._log_manager = log_manager
        self._environment = environment
        self._on_moved = on_moved
        self.quota = ByteRateQuota(UNLIMITED)
        """Bytes per second for all moves together; its limit may be changed at any time."""
        self._moves: dict[TopicPartition, _Move] = {}
        self._tasks = TaskOwner(1)
        self._mover: asyncio.Task[None] | None = None

    def alter(self, partition: Partition, log_dir: LogDir) -> None:
        """Move the replica to `log_dir`; if it is already there, cancel its move elsewhere.

        Raises KafkaError.
        """
        name, log = partition.topic_partition, partition.log
        future = self._log_manager.future_logs.get(name)
        if future is not None and future.log_dir is not log_dir:
            self._call_off(partition)
            future = None
        if log.log_dir is log_dir or future is not None:
            return
        unique_id = self._environment.random_uuid().hex()
        now_ms = self._environment.wall_clock_ms()
        self._log_manager.create_future_log(log, log_dir, unique_id, now_ms)
        self.resume(partition)

    def resume(self, partition: Partition) -> None:
        """Resume the move of a partition that has a future log, unless it is under way."""
        name = partition.topic_partition
        future = self._log_manager.future_logs.get(name)
        assert future is not None
        move = self._moves.get(name)
        if move is None or move.partition is not partition or move.copy.future is not future:
            self._moves[name] = _Move(partition, FutureCopy(partition.log, future))
        if self._mover is None or self._mover.done():
            self._mover = self._tasks.start(self._run(), "log directory moves")

    def _call_off(self, partition: Partition) -> None:
        name = partition.topic_partition
        self._moves.pop(name, None)
        self._log_manager.delete_future_log(name, self._environment.wall_clock_ms())
        # The controller may already have recorded the other directory.
        self._tools.directories.report(
            partition.topic_id_partition, partition.log.log_dir.directory_id
        )

    def forget(self, topic_partition: TopicPartition) -> None:
        """End the move of a partition that has left this broker; the caller deletes its logs."""
        self._moves.pop(topic_partition, None)

    def on_log_dir_failure(self, log_dir: LogDir) -> None:
        """End the moves from and to a directory."""
        for name, move in list(self._moves.items()):
            if move.copy.future.log_dir is log_dir:
                self._call_off(move.partition)
            elif move.copy.current.log_dir is log_dir:
                del self._moves[name]

    async def stop(self) -> None:
        """Stop the moves; the next start resumes them."""
        await self._tasks.stop()

    async def _run(self) -> None:
        while self._moves:
            move = next(iter(self._moves.values()))
            name = move.partition.topic_partition
            with self._tools.supervisor.attempt(_MOVE, name):
                try:
                    await self._advance(move)
                except KafkaError as error:
                    await self._put_off(move, error)
            if self._tools.supervisor.has_failed(_MOVE, name):
                await self._put_off(move, None)

    async def _put_off(self, move: _Move, error: KafkaError | None) -> None:
        """Put the move behind the others and retry it, unless a disk has failed."""
        name = move.partition.topic_partition
        if error is not None:
            _log.warning(
                "Could not move %s to another log directory, trying again: %s", name, error
            )
        if self._is_current(move):
            self._moves[name] = self._moves.pop(name)
        await asyncio.sleep(_RETRY_S)

    def _is_current(self, move: _Move) -> bool:
        return self._moves.get(move.partition.topic_partition) is move

    async def _advance(self, move: _Move) -> None:
        """Fill the future log and let it take over. Returns early when the move is cancelled."""
        if move.copy.future.local.is_released:
            move = self._reopen(move)
        await self._fill(move)
        future = move.copy.future
        if not self._is_current(move) or not await self._flush(move):
            return
        partition = move.partition
        directory = future.log_dir.directory_id
        if partition.image.directory(partition.node_id) != directory:
            await self._tools.directories.assign(partition.topic_id_partition, directory)
        if not self._is_current(move):
            # The cancellation has reported the old directory; do so again, after the new one.
            self._tools.directories.report(
                partition.topic_id_partition, partition.log.log_dir.directory_id
            )
        elif move.copy.bytes_left <= _LAST_BYTES_MAX:
            self._take_over(move)

    def _reopen(self, move: _Move) -> _Move:
        """Reopen a future log that was closed because it could not take over."""
        name, now_ms = move.partition.topic_partition, self._environment.wall_clock_ms()
        future = self._log_manager.reopen_future_log(name, now_ms)
        self._moves[name] = again = _Move(move.partition, FutureCopy(move.partition.log, future))
        return again

    async def _fill(self, move: _Move) -> None:
        loop = asyncio.get_running_loop()
        copy = move.copy
        while await self._may_copy(move):
            read = copy.next_read(_COPY_BYTES)
            if read is None:
                return
            try:
                content = await loop.run_in_executor(self._tools.executor, read.read)
            except OSError as error:
                raise read.log_dir.fail(error) from error
            if self._is_current(move):
                copied = copy.append(read, content, self._environment.wall_clock_ms())
                self.quota.record(copied, loop.time())

    async def _may_copy(self, move: _Move) -> bool:
        """Wait for the quota, in short steps, so that a new limit soon takes effect."""
        loop = asyncio.get_running_loop()
        while self._is_current(move):
            wait = self.quota.throttle_seconds(loop.time())
            if wait <= 0:
                return True
            await asyncio.sleep(min(wait, _QUOTA_STEP_S))
        return False

    async def _flush(self, move: _Move) -> bool:
        """Flush the copied records; return whether the move is still current afterwards."""
        future = move.copy.future
        task = future.prepare_flush()
        if task is not None:
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._tools.executor, task.run)
            except OSError as error:
                raise future.log_dir.fail(error) from error
            future.complete_flush(task)
        return self._is_current(move)

    def _take_over(self, move: _Move) -> None:
        partition, copy = move.partition, move.copy
        now_ms = self._environment.wall_clock_ms()
        copied = copy.finish(_COPY_BYTES, now_ms)
        self.quota.record(copied, asyncio.get_running_loop().time())
        name = partition.topic_partition
        partition.log = self._log_manager.replace_current_with_future(name, now_ms)
        del self._moves[name]
        _log.info("Moved %s to log directory %s", name, partition.log.log_dir.path)
        self._on_moved(partition)
