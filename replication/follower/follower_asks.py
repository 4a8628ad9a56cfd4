"""One partition's part of a follower's requests and responses.

An ask is an immutable value: the sender puts the partitions of one leader into one request, and
returns each response together with its ask. Asks are compared by identity, so that the response to
an earlier ask never matches the current one.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...storage.log.aux_state import AuxRequest
from ..partition.fetch_data import EpochEndOffset


@dataclass(frozen=True, slots=True, eq=False)
class FetchAsk:
    """One partition of a Fetch request."""

    offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    """-1 if the leader need not check for divergence, for example of a log without history."""
    log_start_offset: int


@dataclass(frozen=True, slots=True, eq=False)
class OffsetAsk:
    """One partition of a replica's ListOffsets request, which covers records up to the log end."""

    timestamp: int
    current_leader_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class EpochEndAsk:
    """One partition of an OffsetForLeaderEpoch request."""

    epoch: int
    current_leader_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class AuxAsk:
    """A request to `tiering.remote_log_aux`, not to the leader: state to fetch from the tier."""

    request: AuxRequest


Ask = FetchAsk | OffsetAsk | EpochEndAsk | AuxAsk


class Fetched(NamedTuple):
    """One partition of a Fetch response."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes | bytearray | memoryview = b""
    diverging: EpochEndOffset | None = None


class FollowerOptions(NamedTuple):
    """The options of all partitions that a broker follows."""

    backoff_ms: int = 1000
    """replica.fetch.backoff.ms"""
    fetches_last_tiered: bool = False
    """follower.fetch.last.tiered.offset.enable (KIP-1023)"""
    truncates_on_fetch: bool = True
    """Whether the leader detects divergence in a fetch, as every broker does. A leader in the same
    process, for a log that moves to another directory, does not."""
