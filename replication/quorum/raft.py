"""The raft core: one node of the metadata quorum (KIP-595, KIP-630, KIP-853, KIP-996).

A pure state machine. Each method takes an event and the time, and returns the actions for the shell
to perform strictly in order. The log is read through `RaftLogView`, so the shell performs the
actions of one event before it hands in the next event; only the end of a `Flush` may come later.
The shell calls `poll` when `deadline_ms` has come.
"""

from random import Random

from ...clients.errors import ErrorCode
from .election_state import ElectionState
from .raft_actions import Action, Token
from .raft_log import RaftLogView
from .raft_messages import QuorumDescription, RaftRequest, RaftResponse
from .raft_options import RaftOptions
from .voter_set import VoterSet


class RaftCore:
    """One node of the metadata quorum; see the top of this file."""

    def __init__(
        self,
        options: RaftOptions,
        log: RaftLogView,
        voters: VoterSet,
        persisted: ElectionState,
        random: Random,
    ) -> None: ...

    @property
    def epoch(self) -> int:
        raise NotImplementedError

    @property
    def leader_id(self) -> int | None:
        raise NotImplementedError

    @property
    def is_leader(self) -> bool:
        raise NotImplementedError

    @property
    def high_watermark(self) -> int | None:
        raise NotImplementedError

    @property
    def deadline_ms(self) -> int | None:
        """When `poll` has something to do."""
        raise NotImplementedError

    def start(self, now_ms: int) -> list[Action]:
        """Take up the persisted state. A sole voter leads after this."""
        raise NotImplementedError

    def poll(self, now_ms: int) -> list[Action]:
        """Act on timers that have ended."""
        raise NotImplementedError

    def handle_request(self, token: Token, request: RaftRequest, now_ms: int) -> list[Action]:
        """Handle a request of another node; the reply may come with a later event."""
        raise NotImplementedError

    def handle_response(self, request_id: int, response: RaftResponse, now_ms: int) -> list[Action]:
        """Handle the response to a request that was sent; ignored if it is no longer awaited."""
        raise NotImplementedError

    def handle_failure(
        self, request_id: int, now_ms: int, error: ErrorCode = ErrorCode.NETWORK_EXCEPTION
    ) -> list[Action]:
        """Handle a request that got no response."""
        raise NotImplementedError

    def handle_log_changed(self, now_ms: int) -> list[Action]:
        """Look at the log: something was appended, truncated or synced."""
        raise NotImplementedError

    def handle_snapshot_loaded(self, now_ms: int) -> list[Action]:
        """Continue after `TruncateFullyToSnapshot`."""
        raise NotImplementedError

    def handle_voters(self, offset: int, voters: VoterSet, now_ms: int) -> list[Action]:
        """A Voters record stands at this offset of the log, committed or not.

        Call it right after the append or the load, before `handle_log_changed`.
        """
        raise NotImplementedError

    def resign(self, epoch: int, now_ms: int) -> list[Action]:
        """Give up the leadership of an epoch; does nothing if this node does not lead it."""
        raise NotImplementedError

    def shutdown(self, now_ms: int) -> list[Action]:
        """Begin a graceful stop; poll until `is_stopped`, or until the shell's own timeout."""
        raise NotImplementedError

    @property
    def is_stopped(self) -> bool:
        """Whether a graceful stop is complete."""
        raise NotImplementedError

    def describe_quorum(self, now_ms: int) -> QuorumDescription:
        """The data of a DescribeQuorum response."""
        raise NotImplementedError
