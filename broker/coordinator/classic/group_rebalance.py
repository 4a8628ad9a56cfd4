"""How a classic group rebalances: the mechanics below the requests of `classic_group.py`.

A rebalance has two halves. First JoinGroup requests are parked until all members have come or the
slowest member's rebalance timeout is over; then the generation begins, everyone is answered, and
for another such timeout SyncGroup requests are parked until the leader's assignment is in the log.
The very first rebalance waits `group.initial.rebalance.delay.ms` for company instead (KIP-134).
Sans-IO: what is to be done is appended to `_actions`.
"""

from collections.abc import Mapping

from ....clients.errors import ErrorCode
from ..group_actions import (
    Action,
    CancelTimer,
    CompleteJoin,
    CompleteSync,
    GroupProtocol,
    GroupSnapshot,
    JoinResult,
    MemberSnapshot,
    SetTimer,
    StoreGroup,
    SyncResult,
    TimerKey,
    TimerKind,
    Waiter,
)
from ..group_config import GroupCoordinatorConfig
from .group_members import ClassicMember, GroupMembers
from .group_state import (
    NEXT_STATES,
    REACTIONS,
    GroupEvent,
    GroupState,
    Reaction,
    can_rebalance,
)

REFUSALS: dict[Reaction, ErrorCode] = {
    Reaction.REFUSE_UNKNOWN_MEMBER: ErrorCode.UNKNOWN_MEMBER_ID,
    Reaction.REFUSE_REBALANCING: ErrorCode.REBALANCE_IN_PROGRESS,
    Reaction.REFUSE_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Reaction.REFUSE_NON_EMPTY: ErrorCode.NON_EMPTY_GROUP,
    Reaction.REFUSE_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
}

_POSTPONEMENT_MIN_MS = 1_000
"""Members name their timeouts, and one of 0 ms would be over at once, again and again."""


class RebalancingGroup:
    """The state of one group, its members, and the moves between generations."""

    def __init__(self, group_id: str, config: GroupCoordinatorConfig, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation = 0
        # None: a simple group, which only stores offsets. Set by the first member.
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = GroupMembers()
        self._config = config
        # What is left of the initial delay; None but in the first rebalance of an empty group.
        self._delay_left_ms: int | None = None
        self._delay_ms = 0
        self._joined_during_delay = False
        self._actions: list[Action] = []
        self._now_ms = now_ms

    def restore(self, snapshot: GroupSnapshot) -> None:
        """Become what the log says: members back means that the group was stable."""
        self.protocol_type = snapshot.protocol_type
        self.protocol_name = snapshot.protocol_name
        self.generation = snapshot.generation
        self.state_timestamp_ms = snapshot.state_timestamp_ms
        self.members = GroupMembers()
        for saved in snapshot.members:
            protocols = (GroupProtocol(snapshot.protocol_name or "", saved.subscription),)
            self.members.add(
                ClassicMember(
                    saved.member_id,
                    saved.instance_id,
                    saved.client_id,
                    saved.client_host,
                    saved.rebalance_timeout_ms,
                    saved.session_timeout_ms,
                    protocols,
                    saved.assignment,
                )
            )
        if snapshot.leader is not None and snapshot.leader in self.members:
            self.members.leader_id = snapshot.leader
        self.state = GroupState.STABLE if snapshot.members else GroupState.EMPTY

    def resume(self, now_ms: int) -> list[Action]:
        """After loading: everyone has a full session to be heard of again."""
        self._begin(now_ms)
        for member in self.members.by_id.values():
            self._restart_session(member)
        if len(self.members) > self._config.group_max_size:
            self._begin_rebalance()
        return self._taken()

    def take_over(
        self, protocols: Mapping[str, tuple[GroupProtocol, ...]], rebalances: bool, now_ms: int
    ) -> list[Action]:
        """Go on with the members of a group of the consumer protocol, which this was before.

        They are as the log says but for the protocols that they support, of which it has one.
        """
        self._begin(now_ms)
        for member in self.members.by_id.values():
            member.protocols = protocols[member.member_id]
            self._restart_session(member)
        if rebalances:
            self._begin_rebalance()
        return self._taken()

    def unload(self, error: ErrorCode) -> list[Action]:
        """The coordinator moves away: everyone who is parked is told, nothing is timed."""
        self._begin(self._now_ms)
        for kind in (TimerKind.INITIAL_DELAY, TimerKind.REBALANCE, TimerKind.SYNC):
            self._cancel(kind)
        for member_id in self.members.pending_joins:
            self._cancel(TimerKind.SESSION, member_id)
        for member in self.members.by_id.values():
            self._cancel(TimerKind.SESSION, member.member_id)
            self._answer_join(member, JoinResult(member.member_id, error))
            self._answer_sync(member, SyncResult(error))
        return self._taken()

    def snapshot(self, assignments: dict[str, bytes]) -> GroupSnapshot:
        """The group as it goes to the log, with these assignments."""
        members = tuple(
            MemberSnapshot(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol_name),
                assignments[member.member_id],
            )
            for member in self.members.by_id.values()
        )
        return GroupSnapshot(
            self.group_id,
            self.protocol_type,
            self.generation,
            self.protocol_name,
            self.members.leader_id,
            self.state_timestamp_ms,
            members,
        )

    @property
    def is_simple(self) -> bool:
        """Only stores offsets, and nobody is about to join."""
        no_members = self.state is GroupState.EMPTY and not self.members.pending_joins
        return self.protocol_type is None and no_members

    # The state, and what is to be done.

    def _begin(self, now_ms: int) -> None:
        assert not self._actions, "the actions of the previous event were not taken"
        self._now_ms = now_ms

    def _taken(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    def _reaction(self, event: GroupEvent) -> Reaction:
        return REACTIONS[self.state, event]

    def _move_to(self, state: GroupState) -> None:
        assert state in NEXT_STATES[self.state], f"{self.state} may not become {state}"
        self.state = state
        self.state_timestamp_ms = self._now_ms

    # From one generation to the next.

    def _rebalance_or_complete(self, reaction: Reaction) -> None:
        """Members came or went: begin a rebalance, or see whether this one is complete now."""
        initial = self._delay_left_ms is not None
        match reaction:
            case Reaction.REBALANCE:
                self._begin_rebalance()
            case Reaction.COMPLETE_IF_ALL_JOINED:
                if self.members.all_joined:
                    self._complete_join()
            case Reaction.COMPLETE_IF_NOT_INITIAL:
                if not initial and self.members.all_joined:
                    self._complete_join()
            case _:
                assert reaction is Reaction.IGNORE, reaction

    def _rebalance_on_join(self) -> None:
        """A join was parked."""
        if can_rebalance(self.state):
            self._begin_rebalance()
        else:
            self._rebalance_or_complete(Reaction.COMPLETE_IF_NOT_INITIAL)

    def _begin_rebalance(self) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._fail_syncs(ErrorCode.REBALANCE_IN_PROGRESS)
        self.members.pending_syncs.clear()
        self._cancel(TimerKind.SYNC)
        initial = self.state is GroupState.EMPTY
        self._move_to(GroupState.PREPARING_REBALANCE)
        if initial:
            self._joined_during_delay = False
            delay_ms = self._config.group_initial_rebalance_delay_ms
            self._delay_ms = delay_ms
            self._delay_left_ms = max(self.members.rebalance_timeout_ms - delay_ms, 0)
            self._set(TimerKind.INITIAL_DELAY, delay_ms)
        elif self.members.all_joined:
            self._complete_join()
        else:
            self._set(TimerKind.REBALANCE, self.members.rebalance_timeout_ms)

    def _extend_or_complete(self) -> None:
        """The initial delay is over: wait on if someone came meanwhile and there is time left."""
        left_ms = self._delay_left_ms
        if left_ms and self._joined_during_delay:
            self._joined_during_delay = False
            # As Kafka counts: the wait that has passed comes off what is left.
            self._delay_left_ms = max(left_ms - self._delay_ms, 0)
            self._delay_ms = min(self._config.group_initial_rebalance_delay_ms, left_ms)
            self._set(TimerKind.INITIAL_DELAY, self._delay_ms)
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        """Begin the next generation with those who are here and those with static names."""
        self._cancel(TimerKind.REBALANCE)
        self._cancel(TimerKind.INITIAL_DELAY)
        for member in self.members.missing_dynamic():
            self.members.remove(member.member_id)
            self._cancel(TimerKind.SESSION, member.member_id)
        if not self.members.elect_joined_leader() and len(self.members):
            # Only static members are left and none came: their session timeouts will decide.
            delay_ms = max(self.members.rebalance_timeout_ms, _POSTPONEMENT_MIN_MS)
            self._set(TimerKind.REBALANCE, delay_ms)
            return
        self._delay_left_ms = None
        self.generation += 1
        self.members.pending_syncs.clear()
        if not len(self.members):
            self.protocol_name = None
            self._move_to(GroupState.EMPTY)
            self._actions.append(StoreGroup(self.snapshot({}), None))
            return
        self.protocol_name = self.members.select_protocol()
        self._move_to(GroupState.COMPLETING_REBALANCE)
        for member in list(self.members.by_id.values()):
            self._answer_join(member, self._generation_for(member.member_id))
            self._restart_session(member)
            member.is_new = False
            self.members.pending_syncs.add(member.member_id)
        self._set(TimerKind.SYNC, self.members.rebalance_timeout_ms)

    def _expel_unsynced(self) -> None:
        """Remove who was told the generation and never asked for its share."""
        late = list(self.members.pending_syncs)
        for member_id in late:
            self.members.remove(member_id)
            self._cancel(TimerKind.SESSION, member_id)
        if late:
            self._begin_rebalance()

    def _distribute(self, assignments: dict[str, bytes]) -> None:
        """The assignment is in the log: everyone may have it."""
        for member in self.members.by_id.values():
            member.assignment = assignments.get(member.member_id, b"")
            if self._answer_sync(member, self._assignment_of(member)):
                # Its session timeout was not watched while it was parked.
                self._restart_session(member)
        self._move_to(GroupState.STABLE)

    def _fail_syncs(self, error: ErrorCode) -> None:
        for member in self.members.by_id.values():
            member.assignment = b""
            if self._answer_sync(member, SyncResult(error)):
                self._restart_session(member)

    # Parking and answering.

    def _park_join(self, member: ClassicMember, waiter: Waiter) -> None:
        """Park a JoinGroup; an earlier one of the same member was given up by its client."""
        self._answer_join(member, JoinResult(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        member.join_waiter = waiter

    def _park_sync(self, member: ClassicMember, waiter: Waiter) -> None:
        self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_waiter = waiter
        self._has_synced(member)

    def _has_synced(self, member: ClassicMember) -> None:
        self.members.pending_syncs.discard(member.member_id)
        if not self.members.pending_syncs:
            self._cancel(TimerKind.SYNC)

    def _answer_join(self, member: ClassicMember, result: JoinResult) -> bool:
        """Answer a parked join; false where none is."""
        if member.join_waiter is None:
            return False
        self._actions.append(CompleteJoin(member.join_waiter, result))
        member.join_waiter = None
        return True

    def _answer_sync(self, member: ClassicMember, result: SyncResult) -> bool:
        """Answer a parked sync; false where none is."""
        if member.sync_waiter is None:
            return False
        self._actions.append(CompleteSync(member.sync_waiter, result))
        member.sync_waiter = None
        return True

    def _generation_for(self, member_id: str) -> JoinResult:
        """This generation as this member is told about it; only the leader hears of the others."""
        leads = self.members.leader_id == member_id
        return JoinResult(
            member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.members.leader_id or "",
            members=self.members.as_joined(self.protocol_name) if leads else (),
        )

    def _assignment_of(self, member: ClassicMember) -> SyncResult:
        return SyncResult(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    # Timers.

    def _set(self, kind: TimerKind, delay_ms: int, member_id: str = "") -> None:
        self._actions.append(SetTimer(TimerKey(self.group_id, kind, member_id), delay_ms))

    def _cancel(self, kind: TimerKind, member_id: str = "") -> None:
        self._actions.append(CancelTimer(TimerKey(self.group_id, kind, member_id)))

    def _restart_session(self, member: ClassicMember) -> None:
        self._set(TimerKind.SESSION, member.session_timeout_ms, member.member_id)
