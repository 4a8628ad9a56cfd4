"""What the raft core has its shell do. The shell performs a list of actions strictly in order."""

from typing import NamedTuple

from ...storage.remote.remote_lineage import OffsetAndEpoch
from .election_state import ElectionState
from .raft_messages import (
    AddVoterRequest,
    FetchedBatch,
    RaftRequest,
    RaftResponse,
    VoterChangeResponse,
)
from .voter_set import Address, VoterKey, VoterSet

Token = object
"""What the shell hands in with a request, and gets back with its response."""


class Destination(NamedTuple):
    """Where a request goes: a voter, or a bootstrap server, which has a negative id."""

    node_id: int
    address: Address


class Persist(NamedTuple):
    """Write `quorum-state` and sync it before anything after it in the list is done."""

    state: ElectionState


class Send(NamedTuple):
    """Send a request. Pass its response to `RaftCore.handle_response`, with `request_id`.

    If the connection fails or a response does not come, call `RaftCore.handle_failure`. The core
    has a timeout of its own for every request: then the shell may drop the request, and a late
    response is ignored.
    """

    request_id: int
    destination: Destination
    request: RaftRequest


class Reply(NamedTuple):
    """Send a response as it is."""

    token: Token
    response: RaftResponse


class ReplyWithRecords(NamedTuple):
    """Send a FetchResponse with records from `offset` on, up to the log end offset."""

    token: Token
    response: RaftResponse
    offset: int


class ReplyWithSnapshotBytes(NamedTuple):
    """Send a FetchSnapshotResponse with up to `max_bytes` from its snapshot at its position."""

    token: Token
    response: RaftResponse
    max_bytes: int


class AppendStartOfEpoch(NamedTuple):
    """Append one control batch in a new leader's epoch: LeaderChange, perhaps with the voters.

    Call `RaftCore.handle_log_changed` after it.
    """

    epoch: int
    leader_id: int
    voters: tuple[VoterKey, ...]
    granting_voters: tuple[VoterKey, ...]
    kraft_version: int | None = None
    """None: no KRaftVersion record."""
    voter_set: VoterSet | None = None
    """None: no Voters record."""


class AppendVoters(NamedTuple):
    """Append a control batch with a Voters record in the leader's epoch (KIP-853).

    The leader has added the set to its history at `offset` already.
    """

    epoch: int
    offset: int
    voter_set: VoterSet


class AskVersions(NamedTuple):
    """Ask a node that is to be a voter for its versions (ApiVersions).

    Then hand in the request again, with `kraft_version` or with `is_unreachable`.
    """

    token: Token
    request: AddVoterRequest
    destination: Destination


class ReplyToVoterChange(NamedTuple):
    """Send the response to a change of the voters."""

    token: Token
    response: VoterChangeResponse


class AppendFetched(NamedTuple):
    """Append batches from the leader. Call `RaftCore.handle_log_changed` after it."""

    batches: tuple[FetchedBatch, ...]


class TruncateTo(NamedTuple):
    """Truncate the log to this end offset, then call `RaftCore.handle_log_changed`."""

    offset: int


class CreateSnapshot(NamedTuple):
    """Begin the temporary file of a snapshot that is fetched from the leader."""

    snapshot_id: OffsetAndEpoch


class WriteSnapshotChunk(NamedTuple):
    """Write fetched bytes of a snapshot to its temporary file."""

    snapshot_id: OffsetAndEpoch
    position: int
    chunk: bytes | memoryview


class TruncateFullyToSnapshot(NamedTuple):
    """Freeze the fetched snapshot, truncate the log fully to it, load it.

    Call `RaftCore.handle_snapshot_loaded` after it.
    """

    snapshot_id: OffsetAndEpoch


class DropSnapshot(NamedTuple):
    """Delete the temporary file of a snapshot that is not fetched any more."""

    snapshot_id: OffsetAndEpoch


class Flush(NamedTuple):
    """Sync the log up to its end, then call `RaftCore.handle_log_changed`."""


class HighWatermark(NamedTuple):
    """Everything below this offset is committed."""

    offset: int


class LeaderChanged(NamedTuple):
    """The leader of an epoch; None if unknown.

    If the leader is this node, the shell notifies its controller only after everything below
    `epoch_start_offset` has been replayed. A resigned leader is never announced.
    """

    leader_id: int | None
    epoch: int
    epoch_start_offset: int = -1


class Fatal(NamedTuple):
    """The quorum's state is broken: stop the process without any further action."""

    reason: str


Action = (
    Persist
    | Send
    | Reply
    | ReplyWithRecords
    | ReplyWithSnapshotBytes
    | AppendStartOfEpoch
    | AppendVoters
    | AskVersions
    | ReplyToVoterChange
    | AppendFetched
    | TruncateTo
    | CreateSnapshot
    | WriteSnapshotChunk
    | TruncateFullyToSnapshot
    | DropSnapshot
    | Flush
    | HighWatermark
    | LeaderChanged
    | Fatal
)
