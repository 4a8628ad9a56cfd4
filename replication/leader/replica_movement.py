"""The log directories of this broker's replicas (`ReplicaManager.alterReplicaLogDirs`).

This part is loaded at every start: it reports directories that the controller has not recorded. The
code that moves replicas is loaded with the first move.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID
from ...clients.runtime.environment import Environment
from ...clients.topic_partition import TopicPartition
from ...storage.directory.log_dir import LogDir
from ...storage.log_file import MAX_NAME_LENGTH, future_directory_name
from ...storage.manager.log_manager import LogManager
from ..partition.partition import Partition
from .hosted_partitions import HostedPartitions
from .replica_directories import MoveTools

if TYPE_CHECKING:
    from .log_dir_moves import LogDirMoves

_log = logging.getLogger(__name__)

_REPORT_INTERVAL_S = 1.0
_ANY_ID = "0" * 32


class ReplicaMovement:
    """See the top of this file."""

    def __init__(
        self,
        hosted: HostedPartitions,
        tools: MoveTools,
        log_manager: LogManager,
        environment: Environment,
    ) -> None:
        self._hosted = hosted
        self._tools = tools
        self._log_manager = log_manager
        self._environment = environment
        self._bytes_per_second: int | None = None
        self._moves: LogDirMoves | None = None
        self._next_report = 0.0
        self._unreported = 0

    def alter(
        self, name: TopicPartition, path: str, partition_of: Callable[[TopicPartition], Partition]
    ) -> ErrorCode:
        """Move a replica, or choose the directory of a partition that is not here yet."""
        try:
            if len(future_directory_name(name, _ANY_ID)) > MAX_NAME_LENGTH:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
            log_dir = self._log_manager.placement.directory_at(path)
            self._prefer(name, log_dir)
            partition = partition_of(name)
            partition.log.log_dir.check()
            self._machinery().alter(partition, log_dir)
        except KafkaError as error:
            self._report(name, error)
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                # Old clients expect this code.
                return ErrorCode.REPLICA_NOT_AVAILABLE
            return error.code
        return ErrorCode.NONE

    def _report(self, name: TopicPartition, error: KafkaError) -> None:
        """Log the refusal, at most once a second: a request may name 100,000 partitions."""
        now = asyncio.get_running_loop().time()
        if now < self._next_report:
            self._unreported += 1
            return
        more = f" ({self._unreported} similar messages suppressed)" if self._unreported else ""
        self._unreported = 0
        self._next_report = now + _REPORT_INTERVAL_S
        _log.warning(
            "Unable to alter log dirs for %.300r: %.300r%s", str(name), error.message, more
        )

    def _prefer(self, name: TopicPartition, log_dir: LogDir) -> None:
        if self._log_manager.get_log(name) is None:
            self._log_manager.placement.prefer(name, log_dir)

    def _machinery(self) -> "LogDirMoves":
        if self._moves is None:
            from .log_dir_moves import LogDirMoves

            self._moves = LogDirMoves(
                self._tools, self._log_manager, self._environment, self._hosted.on_moved
            )
            self._apply_limit(self._moves)
        return self._moves

    def limit(self, bytes_per_second: int) -> None:
        """Set the rate limit of all moves."""
        self._bytes_per_second = bytes_per_second
        if self._moves is not None:
            self._apply_limit(self._moves)

    def _apply_limit(self, moves: "LogDirMoves") -> None:
        if self._bytes_per_second is not None:
            moves.quota.bytes_per_second = self._bytes_per_second

    def resume(self, partition: Partition) -> None:
        """Resume a move that a stop or a crash has interrupted."""
        self._machinery().resume(partition)

    def forget(self, topic_partition: TopicPartition) -> None:
        """End the move of a partition that has left this broker."""
        if self._moves is not None:
            self._moves.forget(topic_partition)

    def report_directory(self, partition: Partition) -> None:
        """Report the replica's directory unless the controller has recorded it."""
        directory = partition.log.log_dir.directory_id
        directory_id = partition.image.directory(partition.node_id)
        future = self._log_manager.future_logs.get(partition.topic_partition)
        is_moving = future is not None and future.log_dir.directory_id == directory_id
        if directory not in (ZERO_UUID, directory_id) and not is_moving:
            self._tools.directories.report(partition.topic_id_partition, directory)

    def on_log_dir_failure(self, log_dir: LogDir) -> None:
        """Report the failure to the controller, and end the moves from and to the directory."""
        if self._moves is not None:
            self._moves.on_log_dir_failure(log_dir)
        self._tools.directories.report_failure([log_dir.directory_id])

    async def stop(self) -> None:
        """Stop the moves; the next start resumes them."""
        if self._moves is not None:
            await self._moves.stop()
        await self._tools.directories.stop()
