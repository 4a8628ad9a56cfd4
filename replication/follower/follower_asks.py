"""What a follower asks, and what it is answered, one partition at a time.

An ask is a value: whoever sends it puts the partitions of one leader into one request, and brings
each answer back with the very ask that it answers. Two asks are never equal: an answer to an
earlier one says nothing to the present one.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...storage.log.aux_state import AuxRequest
from ..partition.fetch_data import EpochEndOffset

# -- What is asked -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FetchAsk:
    """One partition of a Fetch request."""

    offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    """-1: the log has no history, and the leader is to look for no divergence."""
    log_start_offset: int


@dataclass(frozen=True, slots=True, eq=False)
class OffsetAsk:
    """One partition of a ListOffsets request of a replica: the leader answers up to its log end."""

    timestamp: int
    current_leader_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class EpochEndAsk:
    """One partition of an OffsetForLeaderEpoch request."""

    epoch: int
    current_leader_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class AuxAsk:
    """Not for the leader: what `tiering.remote_log_aux` is to fetch from the tier."""

    request: AuxRequest


Ask = FetchAsk | OffsetAsk | EpochEndAsk | AuxAsk


# -- What is answered ----------------------------------------------------------------------------


class Fetched(NamedTuple):
    """One partition of a Fetch response."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes | bytearray | memoryview = b""
    diverging: EpochEndOffset | None = None


class FollowerOptions(NamedTuple):
    """What holds for all partitions that a broker follows."""

    backoff_ms: int = 1000
    """replica.fetch.backoff.ms"""
    fetches_last_tiered: bool = False
    """follower.fetch.last.tiered.offset.enable (KIP-1023)"""
    truncates_on_fetch: bool = True
    """Whether the leader compares histories when it is fetched from, as every broker does. A leader
    in the same process, of a log that moves to another directory, does not."""
