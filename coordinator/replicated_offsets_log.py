"""The logs of `__consumer_offsets` and `__transaction_state` in the replica manager."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ..clients.errors import ErrorCode, KafkaError
from ..clients.topic_partition import TopicPartition
from ..replication.leader.replica_manager import ReplicaManager
from ..replication.partition.append_data import (
    ACKS_ALL,
    ACKS_LEADER,
    AppendEntry,
    AppendRequest,
)
from ..storage.files import FileRegion
from ..storage.log.fetch_data import FetchDataInfo, FetchIsolation
from ..storage.log.unified_log import UnifiedLog
from ..storage.manager.log_manager import LogManager
from ..storage.producer.producer_entry import AppendOrigin
from .offsets_log import Appended
from .result_or_future import ResultOrFuture, settled_by

T = TypeVar("T")


class ReplicatedOffsetsLog:
    """Appends through the replica manager, with outcomes as of acks=all; loads from the local log.

    With fewer replicas in sync than `min.insync.replicas`, a write of transactions is refused at
    once, as `TransactionStateManager` does. A write of groups is appended and waits, for as long as
    `timeout_ms`, as in `CoordinatorRuntime`: a member of a group tries again without a pause.
    """

    def __init__(
        self,
        topic: str,
        timeout_ms: int,
        replicas: ReplicaManager,
        logs: LogManager,
        *,
        checks_min_isr: bool,
    ) -> None:
        self._topic = topic
        self._timeout_ms = timeout_ms
        self._replicas = replicas
        self._logs = logs
        self._checks_min_isr = checks_min_isr

    def append(self, partition: int, batch: bytearray) -> ResultOrFuture[Appended]:
        """See OffsetsLog."""
        entry = AppendEntry(TopicPartition(self._topic, partition), memoryview(batch))
        request = AppendRequest(
            [entry],
            acks=ACKS_ALL if self._checks_min_isr else ACKS_LEADER,
            timeout_ms=self._timeout_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        answer = self._replicas.append_records(request)
        if isinstance(answer, asyncio.Future):
            return _later(answer, lambda results: _to_appended(results[0]))
        if entry.error or self._checks_min_isr:
            return _to_appended(entry)
        replicated = self.when_replicated(partition, entry.last_offset + 1)
        if isinstance(replicated, asyncio.Future):
            return _later(replicated, lambda error: Appended(error, entry.base_offset))
        return Appended(replicated, entry.base_offset)

    def when_replicated(self, partition: int, offset: int) -> ResultOrFuture[ErrorCode]:
        """See OffsetsLog."""
        name = TopicPartition(self._topic, partition)
        return self._replicas.when_replicated(name, offset, self._timeout_ms)

    def offsets(self, partition: int) -> tuple[int, int]:
        """See OffsetsLog."""
        log = self._log(partition)
        return log.log_start_offset, log.log_end_offset

    def high_watermark(self, partition: int) -> int:
        """See OffsetsLog."""
        return self._log(partition).high_watermark

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes | memoryview:
        """See OffsetsLog."""
        fetched = self._log(partition).read(offset, max_bytes, FetchIsolation.LOG_END, True)
        # An internal topic is never tiered.
        assert isinstance(fetched, FetchDataInfo)
        records = fetched.records
        return records.read() if isinstance(records, FileRegion) else records

    def _log(self, partition: int) -> UnifiedLog:
        log = self._logs.get_log(TopicPartition(self._topic, partition))
        if log is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker has no log of {self._topic}-{partition}.",
            )
        return log


def _later(
    answer: asyncio.Future[T], appended: Callable[[T], Appended]
) -> asyncio.Future[Appended]:
    lost = Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return settled_by(answer, lambda done: lost if done.cancelled() else appended(done.result()))


def _to_appended(result: AppendEntry) -> Appended:
    return Appended(result.error, result.base_offset)
