"""The results of reading a log.

A read returns local bytes (`FetchDataInfo`), returns a `RemoteRead` if the bytes are in the remote
tier, or raises a `KafkaError`. Storage itself never waits for the remote tier: the layer above acts
on a `RemoteRead` or a `RemoteTimestampLookup`.
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
    """How far a reader may read."""

    LOG_END = 0
    """A follower: everything appended."""
    HIGH_WATERMARK = 1
    """read_uncommitted: every replicated record."""
    TXN_COMMITTED = 2
    """read_committed: every replicated record below the first open transaction."""


@dataclass(slots=True)
class FetchDataInfo:
    """Whole batches from the local log, possibly none, and the log's bounds at that time.

    `records` is a region of one segment's file; its first batch may begin below the requested
    offset.
    """

    records: FileRegion | bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: list[AbortedTxn] | None = None
    """The aborted transactions in the returned batches; None unless read_committed."""
    first_entry_incomplete: bool = False
    """Whether nothing was returned because the first batch exceeds the reader's limit."""

    @property
    def nbytes(self) -> int:
        records = self.records
        return records.nbytes if isinstance(records, FileRegion) else len(records)


class RemoteRead(NamedTuple):
    """A read of an offset that is only in the remote tier."""

    topic_id_partition: TopicIdPartition
    offset: int
    leader_epoch: int
    """The leader epoch of `offset` in this log, which determines the remote segment to read."""
    max_bytes: int
    isolation: FetchIsolation
    min_one_message: bool
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    local_log_start_offset: int


class RemoteTimestampLookup(NamedTuple):
    """A timestamp that must first be looked up in the remote tier (KIP-405).

    If no record below `local_log_start_offset` has at least `timestamp` (for MAX_TIMESTAMP: at
    least the timestamp of `local_result`), the result of the query is `local_result`.
    """

    topic_id_partition: TopicIdPartition
    timestamp: int
    starting_offset: int
    local_log_start_offset: int
    local_result: TimestampAndOffset | None
