"""The parameters and results of an append through the replica manager, by partition."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...clients.errors import ErrorCode
from ...clients.topic_partition import TopicPartition
from ...storage.config import LogConfig
from ...storage.log.append_result import RecordError
from ...storage.producer.producer_entry import AppendOrigin
from .fetch_data import CurrentLeader

ACKS_ALL = -1
"""acks=all: answer when every in-sync replica has the records."""
ACKS_LEADER = 1
"""acks=1: answer when the leader has the records, however few replicas are in sync."""


@dataclass(slots=True)
class AppendEntry:
    """The records for one partition, and the result of appending them.

    Offsets and timestamps are written in place, so the entry must own the buffer.
    """

    topic_partition: TopicPartition
    records: memoryview
    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    last_offset: int = -1
    # The broker's time if the topic uses LogAppendTime, else -1.
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    # Set with NOT_LEADER_OR_FOLLOWER only.
    current_leader: CurrentLeader | None = None
    # The configuration with which `ReplicaManager.check_in_steps` has checked the records.
    checked_for: LogConfig | None = None

    def refuse(self, code: ErrorCode, message: str | None = None) -> None:
        """Set the error: nothing was appended."""
        self.error = code
        self.error_message = message


@dataclass(slots=True)
class AppendRequest:
    """Records for several partitions, with the acks that the sender waits for."""

    entries: list[AppendEntry]
    acks: int = ACKS_ALL
    timeout_ms: int = 30_000
    origin: AppendOrigin = AppendOrigin.CLIENT
    # The client id of the request, if a client sent it.
    sender: str | None = None
