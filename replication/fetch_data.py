"""What a fetch asks of the replica manager, and what it is answered, partition by partition.

The handlers turn requests into these and these into responses, so that the rules of fetching don't
depend on the version of a message. Offsets are logical, sizes are bytes, times milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ..clients.errors import ErrorCode
from ..clients.protocol.schema import Chunk
from ..clients.topic_partition import TopicIdPartition
from ..storage.fetch_data import FetchIsolation
from ..storage.transaction_index import AbortedTxn

CONSUMER_REPLICA_ID = -1
"""The replica id of whoever isn't a replica."""

NO_EPOCH = -1
"""No leader epoch is given or known."""


class EpochEndOffset(NamedTuple):
    """The end of a leader epoch in a log: the offset after its last record (KIP-101)."""

    epoch: int
    end_offset: int


class CurrentLeader(NamedTuple):
    """Who leads instead, for answers that say "not me" (KIP-951)."""

    leader_id: int
    leader_epoch: int


@dataclass(slots=True)
class FetchParams:
    """What holds for a whole fetch."""

    replica_id: int = CONSUMER_REPLICA_ID
    replica_epoch: int = -1
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0


@dataclass(slots=True)
class FetchPartition:
    """One partition of a fetch; -1 where the request has no epoch."""

    topic_id_partition: TopicIdPartition
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    # The follower's own log start offset; consumers send -1.
    log_start_offset: int = -1


@dataclass(slots=True)
class FetchPartitionResult:
    """The answer for one partition, in the order asked. `records` is sent, not read."""

    topic_id_partition: TopicIdPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Chunk | None = None
    # None under read_uncommitted.
    aborted_transactions: Sequence[AbortedTxn] | None = None
    diverging_epoch: EpochEndOffset | None = None
    # With NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH only.
    current_leader: CurrentLeader | None = None


FetchResults: TypeAlias = "list[FetchPartitionResult]"
