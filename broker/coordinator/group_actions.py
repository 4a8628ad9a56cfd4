"""What goes into a group and what comes out: plain values.

The group decides and the coordinator acts. A request that must wait is parked as a *waiter*, a
number that the coordinator can turn back into its future; an action that names the waiter answers
it. A write to the log carries a *sequel*, which the coordinator hands back with the outcome.
"""

from enum import Enum
from typing import NamedTuple, TypeAlias

from ...clients.errors import ErrorCode

# Turned back into a future by the coordinator; the group never looks inside.
Waiter = int

NO_MEMBER_ID = ""
NO_LEADER = ""
NO_GENERATION = -1


CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupProtocol(NamedTuple):
    """One way of assigning that a member supports, with what it wants the leader to know."""

    name: str
    metadata: bytes


class JoinRequest(NamedTuple):
    """A JoinGroup request, with what its version implies spelled out."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    # The id to give to a member that has none: drawn outside, so that the group needs no chance.
    new_member_id: str
    # KIP-394, v4: a member without an id is sent away with one before it is admitted.
    requires_known_member_id: bool
    # KIP-814, v9: a returning static leader is asked to skip the assignment.
    supports_skipping_assignment: bool


class JoinedMember(NamedTuple):
    """A member as a JoinGroup answer lists it to the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to a JoinGroup."""

    member_id: str
    error: ErrorCode = ErrorCode.NONE
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_LEADER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncRequest(NamedTuple):
    """A SyncGroup request."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


class SyncResult(NamedTuple):
    """The answer to a SyncGroup."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class MemberIdentity(NamedTuple):
    """How a request names a member: an id, an instance id, or both."""

    member_id: str
    instance_id: str | None


Left: TypeAlias = tuple[ErrorCode, list[ErrorCode]]
"""The answer to a LeaveGroup: an error for all of it, or one a member."""


class TimerKind(Enum):
    """What a group may be waiting for."""

    SESSION = "session"
    REBALANCE = "rebalance"
    INITIAL_DELAY = "initial delay"
    JOIN = "join"
    SYNC = "sync"


class TimerKey(NamedTuple):
    """A timer's name; setting it again moves it.

    In a classic group `member_id` is empty but for SESSION; in one of the consumer protocol every
    timer is a member's.
    """

    group_id: str
    kind: TimerKind
    member_id: str


class SetTimer(NamedTuple):
    """Let a timer run out `delay_ms` from now, instead of when it was set to before."""

    key: TimerKey
    delay_ms: int
    # Whether it stays as it is if it was set before.
    unless_set: bool = False


class CancelTimer(NamedTuple):
    """Let a timer never run out."""

    key: TimerKey


class CompleteJoin(NamedTuple):
    """Answer a JoinGroup."""

    waiter: Waiter
    result: JoinResult


class CompleteSync(NamedTuple):
    """Answer a SyncGroup."""

    waiter: Waiter
    result: SyncResult


class MemberSnapshot(NamedTuple):
    """A member as it is written to the log."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupSnapshot(NamedTuple):
    """A group as it is written to the log."""

    group_id: str
    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[MemberSnapshot, ...]


class AssignmentSequel(NamedTuple):
    """After the leader's assignment was written: who gets what in this generation."""

    generation: int
    assignments: dict[str, bytes]


class ReplacementSequel(NamedTuple):
    """After a static member's new id was written: what to go back to if that failed."""

    instance_id: str
    old_member_id: str
    new_member_id: str
    old_protocols: tuple[GroupProtocol, ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader: str
    supports_skipping_assignment: bool


Sequel = AssignmentSequel | ReplacementSequel


class StoreGroup(NamedTuple):
    """Write the group to the log; then call `ClassicGroup.stored` if there is a sequel."""

    snapshot: GroupSnapshot
    sequel: Sequel | None


Action = SetTimer | CancelTimer | CompleteJoin | CompleteSync | StoreGroup
