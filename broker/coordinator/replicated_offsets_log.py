"""The logs of `__consumer_offsets` and `__transaction_state` in the replica manager."""

import asyncio

from ...clients.errors import ErrorCode, KafkaError
from ...clients.topic_partition import TopicPartition
from ...replication.leader.replica_manager import ReplicaManager
from ...replication.partition.append_data import AppendEntry, AppendRequest
from ...storage.files import FileRegion
from ...storage.log.fetch_data import FetchDataInfo, FetchIsolation
from ...storage.log.unified_log import UnifiedLog
from ...storage.manager.log_manager import LogManager
from ...storage.producer.producer_entry import AppendOrigin
from .offsets_log import Appended
from .result_or_future import ResultOrFuture


class ReplicatedOffsetsLog:
    """Appends through the replica manager with acks=all; loads from the local log."""

    def __init__(
        self, topic: str, timeout_ms: int, replicas: ReplicaManager, logs: LogManager
    ) -> None:
        self._topic = topic
        self._timeout_ms = timeout_ms
        self._replicas = replicas
        self._logs = logs

    def append(self, partition: int, batch: bytearray) -> ResultOrFuture[Appended]:
        """See OffsetsLog."""
        entry = AppendEntry(TopicPartition(self._topic, partition), memoryview(batch))
        request = AppendRequest(
            [entry],
            timeout_ms=self._timeout_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        answer = self._replicas.append_records(request)
        if not isinstance(answer, asyncio.Future):
            return _appended(answer[0])
        later: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

        def done(results: asyncio.Future[list[AppendEntry]]) -> None:
            later.set_result(
                Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                if results.cancelled()
                else _appended(results.result()[0])
            )

        answer.add_done_callback(done)
        return later

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


def _appended(result: AppendEntry) -> Appended:
    return Appended(result.error, result.base_offset)
