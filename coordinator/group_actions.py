"""The inputs and outputs of a group: requests, answers and actions, as plain values.

The group decides and the coordinator acts. A request that must wait is parked as a *waiter*, a
number that the coordinator maps to a future; an action with that waiter answers the request. A
write to the log carries a *sequel*, which the coordinator passes back with the outcome.
"""

from enum import Enum
from typing import NamedTuple, TypeAlias

from ..clients.errors import ErrorCode

# The coordinator maps it to a future; it is opaque to the group.
Waiter = int

NO_MEMBER_ID = ""
NO_LEADER = ""
NO_GENERATION = -1


CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupProtocol(NamedTuple):
    """An assignor that a member supports, with the member's metadata for the leader."""

    name: str
    metadata: bytes


class JoinRequest(NamedTuple):
    """A JoinGroup request, with its version-dependent rules as fields."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    # The id for a member that has none; passed in, so that the group needs no randomness.
    new_member_id: str
    # KIP-394, v4: a member without an id gets MEMBER_ID_REQUIRED and an id to rejoin with.
    requires_known_member_id: bool
    # KIP-814, v9: a rejoining static leader gets `skip_assignment`.
    supports_skipping_assignment: bool


class JoinedMember(NamedTuple):
    """A member in the JoinGroup answer to the leader."""

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
    """A member in a request: a member id, an instance id, or both."""

    member_id: str
    instance_id: str | None


Left: TypeAlias = tuple[ErrorCode, list[ErrorCode]]
"""The answer to a LeaveGroup: an error for the whole request, or one per member."""


class TimerKind(Enum):
    """The kinds of timers of a group."""

    SESSION = "session"
    REBALANCE = "rebalance"
    INITIAL_DELAY = "initial delay"
    JOIN = "join"
    SYNC = "sync"


class TimerKey(NamedTuple):
    """The key of a timer; setting it again replaces the deadline.

    In a classic group `member_id` is empty except for SESSION; in a group of the consumer protocol
    every timer belongs to a member.
    """

    group_id: str
    kind: TimerKind
    member_id: str


class SetTimer(NamedTuple):
    """Set a timer to expire `delay_ms` from now, replacing any earlier deadline."""

    key: TimerKey
    delay_ms: int
    # Whether to keep a timer that is already set.
    unless_set: bool = False


class CancelTimer(NamedTuple):
    """Cancel a timer."""

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
    """A member as written to the log."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupSnapshot(NamedTuple):
    """A group as written to the log."""

    group_id: str
    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[MemberSnapshot, ...]


class AssignmentSequel(NamedTuple):
    """For the write of the leader's assignment: the generation's assignments by member id."""

    generation: int
    assignments: dict[str, bytes]


class ReplacementSequel(NamedTuple):
    """For the write of a static member's new id: the state to restore if it fails."""

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
