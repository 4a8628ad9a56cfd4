"""The states of a classic consumer group, what may happen in each, and what is done about it.

A group is Empty until someone joins. While it is PreparingRebalance the members' JoinGroup
requests are parked; when all have come, or the rebalance timeout has passed, a new generation
begins and the group is CompletingRebalance: the leader works out who gets what, the others park
in SyncGroup. With the leader's assignment in the log the group is Stable. Dead means deleted.

    Empty ──join──> PreparingRebalance <──join, leave, timeout── Stable
      ^               │            ^                               ^
      │  nobody left  │ all joined │ join, leave, timeout          │
      └───────────────┤            │                               │
                      └──> CompletingRebalance ──assignment stored─┘

Two tables say it all, and nothing else decides by state: `REACTIONS` names the reaction to every
event in every state, `NEXT_STATES` the moves that are legal. The group itself (`classic_group.py`)
carries the reactions out. The rules are those of Kafka's ClassicGroupState and of the classic half
of GroupMetadataManager (KIP-62, KIP-134, KIP-345, KIP-394).
"""

from enum import Enum


class GroupState(Enum):
    """The value is the name that Kafka's tools print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(Enum):
    """What may happen to a group. Identity and generation have been checked before."""

    JOIN_NEW = "a member joins that the group does not have"
    JOIN_REPLACING = "a static member comes back under a new member id"
    REJOIN_CHANGED = "a member rejoins with other protocols or metadata"
    REJOIN_UNCHANGED = "a follower rejoins with the metadata it had"
    REJOIN_LEADER = "the leader rejoins with the metadata it had"
    SYNC_LEADER = "the leader brings the assignment"
    SYNC_FOLLOWER = "a follower asks for its assignment"
    ASSIGNMENT_STORED = "the assignment of this generation is in the log"
    ASSIGNMENT_LOST = "the assignment of this generation could not be written"
    HEARTBEAT = "a member says it is alive"
    MEMBERS_LEFT = "members have left on request"
    SESSION_EXPIRED = "a member was silent for too long and is out"
    PENDING_LEFT = "a member that had only asked for its id is out"
    REBALANCE_EXPIRED = "the time to rejoin is over"
    INITIAL_DELAY_EXPIRED = "the wait for the first members is over"
    SYNC_EXPIRED = "the time to sync is over"
    COMMIT_OFFSETS = "a member commits offsets"
    DELETE = "the group is to be deleted"


class Reaction(Enum):
    """What the group does about an event."""

    ADD_MEMBER = "admit the member and rebalance"
    REPLACE_AND_WAIT = "swap the member id and wait for the other members"
    REPLACE_AND_REBALANCE = "swap the member id and rebalance"
    REPLACE_AND_KEEP = "swap the member id and keep the assignment if the protocol stays"
    UPDATE_MEMBER = "take over the metadata, park the request and rebalance"
    ANSWER_GENERATION = "answer the join with the generation as it is"
    STORE_ASSIGNMENT = "park the request and write the assignment to the log"
    AWAIT_ASSIGNMENT = "park the request until the assignment is stored"
    ANSWER_ASSIGNMENT = "answer the sync with the assignment as it is"
    DISTRIBUTE = "answer all parked syncs; the group is stable"
    ABANDON_ASSIGNMENT = "fail all parked syncs and rebalance"
    KEEP_ALIVE = "restart the session timeout"
    KEEP_ALIVE_AND_CALL = "restart the session timeout and ask the member to rejoin"
    REBALANCE = "begin a rebalance"
    COMPLETE_IF_ALL_JOINED = "begin the generation if nobody is missing"
    COMPLETE_IF_NOT_INITIAL = (
        "begin the generation if nobody is missing and the first delay is over"
    )
    COMPLETE_JOIN = "begin the generation without those who are missing"
    EXTEND_OR_COMPLETE = "wait on while members keep coming, else begin the generation"
    EXPEL_UNSYNCED = "remove those who have not synced and rebalance"
    ACCEPT = "accept"
    DIE = "the group is dead"
    IGNORE = "nothing"
    REFUSE_UNKNOWN_MEMBER = "answer UNKNOWN_MEMBER_ID"
    REFUSE_REBALANCING = "answer REBALANCE_IN_PROGRESS"
    REFUSE_NOT_AVAILABLE = "answer COORDINATOR_NOT_AVAILABLE"
    REFUSE_NON_EMPTY = "answer NON_EMPTY_GROUP"
    REFUSE_NOT_FOUND = "answer GROUP_ID_NOT_FOUND"


_E = GroupEvent
_R = Reaction

# One row an event: the reaction when Empty, PreparingRebalance, CompletingRebalance, Stable, Dead.
_ROWS: dict[GroupEvent, tuple[Reaction, Reaction, Reaction, Reaction, Reaction]] = {
    _E.JOIN_NEW: (
        _R.ADD_MEMBER,
        _R.ADD_MEMBER,
        _R.ADD_MEMBER,
        _R.ADD_MEMBER,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    # An empty group has no static members, so nobody can come back to it.
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
    # The first answer may have been lost, so the same question gets the same answer.
    _E.REJOIN_UNCHANGED: (
        _R.REFUSE_UNKNOWN_MEMBER,
        _R.UPDATE_MEMBER,
        _R.ANSWER_GENERATION,
        _R.ANSWER_GENERATION,
        _R.REFUSE_NOT_AVAILABLE,
    ),
    # A stable leader rejoins when something outside the metadata changed, such as the topics.
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
        _R.KEEP_ALIVE_AND_CALL,
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
    # A follower may stay away although the leader's assignment has made the group stable.
    _E.SYNC_EXPIRED: (
        _R.IGNORE,
        _R.IGNORE,
        _R.EXPEL_UNSYNCED,
        _R.EXPEL_UNSYNCED,
        _R.IGNORE,
    ),
    # Between join and sync the partitions are changing hands; a member commits before it rejoins.
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

# Kafka's validPreviousStates, turned round.
NEXT_STATES: dict[GroupState, frozenset[GroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.PREPARING_REBALANCE: frozenset({_S.EMPTY, _S.COMPLETING_REBALANCE, _S.DEAD}),
    _S.COMPLETING_REBALANCE: frozenset({_S.STABLE, _S.PREPARING_REBALANCE, _S.DEAD}),
    _S.STABLE: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    # Dead is final; Kafka allows the idle step, since a group may be unloaded twice.
    _S.DEAD: frozenset({_S.DEAD}),
}


def can_rebalance(state: GroupState) -> bool:
    """Whether a rebalance may begin: one is not under way and the group lives."""
    return _S.PREPARING_REBALANCE in NEXT_STATES[state]
