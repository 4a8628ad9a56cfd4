"""The states of a classic consumer group, and its reaction to each event in each state.

A group is Empty until a member joins. In PreparingRebalance, JoinGroup requests are parked until
all members have joined or the rebalance timeout expires. Then a new generation begins in
CompletingRebalance: the leader computes the assignment, and the SyncGroup requests of the other
members are parked. Once the assignment is in the log, the group is Stable. A Dead group is deleted.

    Empty ──join──> PreparingRebalance <──join, leave, timeout── Stable
      ^               │            ^                               ^
      │  no members   │ all joined │ join, leave, timeout          │
      └───────────────┤            │                               │
                      └──> CompletingRebalance ──assignment stored─┘

Two tables define the state machine: `REACTIONS` has the reaction to each event in each state, and
`NEXT_STATES` has the valid transitions. The group (`classic_group.py`) performs the reactions. The
rules are those of Kafka's ClassicGroupState and of the classic group code in GroupMetadataManager
(KIP-62, KIP-134, KIP-345, KIP-394).
"""

from enum import Enum


class GroupState(Enum):
    """A group's state. The value is the name that Kafka's tools print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(Enum):
    """An event in a group. The member's identity and generation have already been checked."""

    JOIN_NEW = "a new member joins"
    JOIN_REPLACING = "a static member rejoins with a new member id"
    REJOIN_CHANGED = "a member rejoins with changed protocols or metadata"
    REJOIN_UNCHANGED = "a follower rejoins with unchanged metadata"
    REJOIN_LEADER = "the leader rejoins with unchanged metadata"
    SYNC_LEADER = "the leader sends the assignment"
    SYNC_FOLLOWER = "a follower requests its assignment"
    ASSIGNMENT_STORED = "the assignment of this generation is in the log"
    ASSIGNMENT_LOST = "the assignment of this generation could not be written"
    HEARTBEAT = "a member sends a heartbeat"
    MEMBERS_LEFT = "members leave with LeaveGroup"
    SESSION_EXPIRED = "a member's session timeout expires"
    PENDING_LEFT = "a pending member's session timeout expires"
    REBALANCE_EXPIRED = "the rebalance timeout expires"
    INITIAL_DELAY_EXPIRED = "the initial rebalance delay expires"
    SYNC_EXPIRED = "the sync timeout expires"
    COMMIT_OFFSETS = "a member commits offsets"
    DELETE = "the deletion of the group is requested"


class Reaction(Enum):
    """The group's reaction to an event."""

    ADD_MEMBER = "add the member and rebalance"
    REPLACE_AND_WAIT = "replace the member id and wait for the other members"
    REPLACE_AND_REBALANCE = "replace the member id and rebalance"
    REPLACE_AND_KEEP = "replace the member id, and rebalance only if the protocol changes"
    UPDATE_MEMBER = "update the member, park the request and rebalance"
    ANSWER_GENERATION = "answer the join with the current generation"
    STORE_ASSIGNMENT = "park the request and write the assignment to the log"
    AWAIT_ASSIGNMENT = "park the request until the assignment is stored"
    ANSWER_ASSIGNMENT = "answer the sync with the current assignment"
    DISTRIBUTE = "become Stable and answer all parked syncs"
    ABANDON_ASSIGNMENT = "fail all parked syncs and rebalance"
    KEEP_ALIVE = "restart the session timeout"
    KEEP_ALIVE_REBALANCING = "restart the session timeout and answer REBALANCE_IN_PROGRESS"
    REBALANCE = "begin a rebalance"
    COMPLETE_IF_ALL_JOINED = "begin the next generation if all members have joined"
    COMPLETE_IF_NOT_INITIAL = (
        "begin the next generation if all members have joined and the initial delay is over"
    )
    COMPLETE_JOIN = "begin the next generation without the missing members"
    EXTEND_OR_COMPLETE = "wait again if members joined meanwhile, else begin the next generation"
    EXPEL_UNSYNCED = "remove the members that have not synced and rebalance"
    ACCEPT = "accept the commit"
    DIE = "become Dead"
    IGNORE = "ignore"
    REFUSE_UNKNOWN_MEMBER = "answer UNKNOWN_MEMBER_ID"
    REFUSE_REBALANCING = "answer REBALANCE_IN_PROGRESS"
    REFUSE_NOT_AVAILABLE = "answer COORDINATOR_NOT_AVAILABLE"
    REFUSE_NON_EMPTY = "answer NON_EMPTY_GROUP"
    REFUSE_NOT_FOUND = "answer GROUP_ID_NOT_FOUND"


_E = GroupEvent
_R = Reaction

# The reactions to each event in Empty, PreparingRebalance, CompletingRebalance, Stable, Dead.
_ROWS: dict[GroupEvent, tuple[Reaction, Reaction, Reaction, Reaction, Reaction]] = {
    _E.JOIN_NEW: (
        _R.ADD_MEMBER,
        _R.ADD_MEMBER,
        _R.ADD_MEMBER,
        _R.ADD_MEMBER,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    # An empty group has no static member to replace.
    _E.JOIN_REPLACING: (
        _R.REFUSE_UNKNOWN_MEMBER,
        _R.REPLACE_AND_WAIT,
        _R.REPLACE_AND_REBALANCE,
        _R.REPLACE_AND_KEEP,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    _E.REJOIN_CHANGED: (
        _R.REFUSE_UNKNOWN_MEMBER,
        _R.UPDATE_MEMBER,
        _R.UPDATE_MEMBER,
        _R.UPDATE_MEMBER,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    # The response may have been lost, so a repeated request gets the same response.
    _E.REJOIN_UNCHANGED: (
        _R.REFUSE_UNKNOWN_MEMBER,
        _R.UPDATE_MEMBER,
        _R.ANSWER_GENERATION,
        _R.ANSWER_GENERATION,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    # The leader of a stable group also rejoins when topics change, to compute a new assignment.
    _E.REJOIN_LEADER: (
        _R.REFUSE_UNKNOWN_MEMBER,
        _R.UPDATE_MEMBER,
        _R.ANSWER_GENERATION,
        _R.UPDATE_MEMBER,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    _E.SYNC_LEADER: (
        _R.REFUSE_UNKNOWN_MEMBER,
        _R.REFUSE_REBALANCING,
        _R.STORE_ASSIGNMENT,
        _R.ANSWER_ASSIGNMENT,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    _E.SYNC_FOLLOWER: (
        _R.REFUSE_UNKNOWN_MEMBER,
        _R.REFUSE_REBALANCING,
        _R.AWAIT_ASSIGNMENT,
        _R.ANSWER_ASSIGNMENT,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    _E.ASSIGNMENT_STORED: (_R.IGNORE, _R.IGNORE, _R.DISTRIBUTE, _R.IGNORE, _R.IGNORE),
    _E.ASSIGNMENT_LOST: (_R.IGNORE, _R.IGNORE, _R.ABANDON_ASSIGNMENT, _R.IGNORE, _R.IGNORE),
    _E.HEARTBEAT: (
        _R.REFUSE_UNKNOWN_MEMBER,
        _R.KEEP_ALIVE_REBALANCING,
        _R.KEEP_ALIVE,
        _R.KEEP_ALIVE,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    _E.MEMBERS_LEFT: (
        _R.IGNORE,
        _R.COMPLETE_IF_NOT_INITIAL,
        _R.REBALANCE,
        _R.REBALANCE,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    _E.SESSION_EXPIRED: (
        _R.IGNORE,
        _R.COMPLETE_IF_ALL_JOINED,
        _R.REBALANCE,
        _R.REBALANCE,
        _R.IGNORE,
    ),
    _E.PENDING_LEFT: (_R.IGNORE, _R.COMPLETE_IF_ALL_JOINED, _R.IGNORE, _R.IGNORE, _R.IGNORE),
    _E.REBALANCE_EXPIRED: (_R.IGNORE, _R.COMPLETE_JOIN, _R.IGNORE, _R.IGNORE, _R.IGNORE),
    _E.INITIAL_DELAY_EXPIRED: (
        _R.IGNORE,
        _R.EXTEND_OR_COMPLETE,
        _R.IGNORE,
        _R.IGNORE,
        _R.IGNORE,
    ),
    # Some followers may not have synced yet when the leader's assignment makes the group Stable.
    _E.SYNC_EXPIRED: (
        _R.IGNORE,
        _R.IGNORE,
        _R.EXPEL_UNSYNCED,
        _R.EXPEL_UNSYNCED,
        _R.IGNORE,
    ),
    # In CompletingRebalance, partitions change owners: members must commit before they rejoin.
    _E.COMMIT_OFFSETS: (
        _R.ACCEPT,
        _R.ACCEPT,
        _R.REFUSE_REBALANCING,
        _R.ACCEPT,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    _E.DELETE: (
        _R.DIE,
        _R.REFUSE_NON_EMPTY,
        _R.REFUSE_NON_EMPTY,
        _R.REFUSE_NON_EMPTY,
        _R.REFUSE_NOT_FOUND,
    ),
}

REACTIONS: dict[tuple[GroupState, GroupEvent], Reaction] = {
    (state, event): reaction
    for event, row in _ROWS.items()
    for state, reaction in zip(GroupState, row, strict=True)
}

_S = GroupState

# The inverse of Kafka's validPreviousStates.
NEXT_STATES: dict[GroupState, frozenset[GroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.PREPARING_REBALANCE: frozenset({_S.EMPTY, _S.COMPLETING_REBALANCE, _S.DEAD}),
    _S.COMPLETING_REBALANCE: frozenset({_S.STABLE, _S.PREPARING_REBALANCE, _S.DEAD}),
    _S.STABLE: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    # Dead is final. Kafka allows Dead to Dead, because a group may be unloaded twice.
    _S.DEAD: frozenset({_S.DEAD}),
}


def can_rebalance(state: GroupState) -> bool:
    """Whether a rebalance may begin: none is being prepared and the group is not Dead."""
    return _S.PREPARING_REBALANCE in NEXT_STATES[state]
