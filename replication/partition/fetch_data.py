"""The parameters and results of a fetch from the replica manager, by partition.

The handlers turn requests into these, so that the fetch logic doesn't depend on the version of
a message. The results go into the response unchanged. Offsets are logical, sizes are in bytes,
times in milliseconds.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ...clients.protocol.messages.fetch import AbortedTransaction, PartitionData
from ...clients.topic_partition import TopicIdPartition
from ...storage.log.fetch_data import FetchIsolation
from ...storage.segment.transaction_index import AbortedTxn

CONSUMER_REPLICA_ID = -1
"""The replica id in a consumer's fetch."""

NO_EPOCH = -1
"""The leader epoch if none is given or known."""


class EpochEndOffset(NamedTuple):
    """The end of a leader epoch in a log: the offset after its last record (KIP-101)."""

    epoch: int
    end_offset: int


class CurrentLeader(NamedTuple):
    """The current leader, for responses with a not-leader error (KIP-951)."""

    leader_id: int
    leader_epoch: int


@dataclass(slots=True)
class FetchParams:
    """The parameters of a whole fetch."""

    replica_id: int = CONSUMER_REPLICA_ID
    replica_epoch: int = -1
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK
    rack: str | None = None
    """The rack of a consumer, "" if it has none; None if only the leader may answer: a follower's
    fetch, or a version without racks."""
    listener: str = ""
    """The listener of the client; a replica that it is sent to has an endpoint there."""

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def is_committed(self) -> bool:
        """Whether the reader gets the list of aborted transactions."""
        return self.isolation is FetchIsolation.TXN_COMMITTED


@dataclass(slots=True)
class FetchPartition:
    """One partition of a fetch; an epoch is -1 if the request has none."""

    topic_id_partition: TopicIdPartition
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    # The follower's own log start offset; consumers send -1.
    log_start_offset: int = -1


FetchResults = list[PartitionData]
"""The results for the partitions, in request order; their records are sent without parsing."""


def aborted_transactions(transactions: Iterable[AbortedTxn]) -> list[AbortedTransaction]:
    """Aborted transactions as a Fetch response lists them."""
    return [
        AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
        for txn in transactions
    ]
