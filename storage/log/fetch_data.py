"""What a read of a log answers.

Three answers are possible: local bytes (`FetchDataInfo`), the knowledge that the bytes are in the
remote tier (`RemoteRead`), or a `KafkaError`. Storage itself never waits for the remote tier: the
layer above acts on a `RemoteRead` or a `RemoteTimestampLookup`.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ...clients.topic_partition import TopicIdPartition
from ..files import FileRegion
from ..segment.time_index import TimestampAndOffset
from ..segment.transaction_index import AbortedTxn

EMPTY_RECORDS = b""


class FetchIsolation(IntEnum):
    """How far a reader may see."""

    LOG_END = 0
    """A follower: everything appended."""
    HIGH_WATERMARK = 1
    """read_uncommitted: what is replicated."""
    TXN_COMMITTED = 2
    """read_committed: what is replicated and below every open transaction."""


@dataclass(slots=True)
class FetchDataInfo:
    """Whole batches from the local log, possibly none, and the log's bounds at that moment.

    `records` is a region of one segment's file; its first batch may begin below the offset that
    was asked for.
    """

    records: FileRegion | bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: list[AbortedTxn] | None = None
    """For read_committed: what overlaps the returned batches. None for the other isolations."""
    first_entry_incomplete: bool = False
    """There is a batch, but it is larger than the reader allows."""

    @property
    def nbytes(self) -> int:
        records = self.records
        return records.nbytes if isinstance(records, FileRegion) else len(records)


class RemoteRead(NamedTuple):
    """A read of offsets that only the remote tier still holds."""

    topic_id_partition: TopicIdPartition
    offset: int
    leader_epoch: int
    """The epoch of `offset` in this log's history: it decides which remote segment counts."""
    max_bytes: int
    isolation: FetchIsolation
    min_one_message: bool
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    local_log_start_offset: int


class RemoteTimestampLookup(NamedTuple):
    """A timestamp that must first be looked for in the remote tier (KIP-405).

    `local_result` answers if no record below `local_log_start_offset` is as young; where the
    youngest record of all is looked for (MAX_TIMESTAMP), if none of them is at least as young.
    """

    topic_id_partition: TopicIdPartition
    timestamp: int
    starting_offset: int
    local_log_start_offset: int
    local_result: TimestampAndOffset | None
