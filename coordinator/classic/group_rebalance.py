"""The rebalance of a classic group, used by the requests of `classic_group.py`.

A rebalance has two phases. First JoinGroup requests are parked until all members have joined or the
longest rebalance timeout of a member expires; then the generation begins and the joins are
answered. In the second phase, which has the same timeout, SyncGroup requests are parked until the
leader's assignment is in the log. The first rebalance of an empty group instead waits
`group.initial.rebalance.delay.ms` for more members (KIP-134). Sans-IO: actions are appended to the
group's `PendingActions`.
"""

from ...clients.errors import ErrorCode
from ..group_actions import (
    Action,
    GroupProtocol,
    GroupSnapshot,
    JoinResult,
    MemberSnapshot,
    StoreGroup,
    SyncResult,
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
from .pending_actions import PendingActions

REFUSALS: dict[Reaction, ErrorCode] = {
    Reaction.REFUSE_UNKNOWN_MEMBER: ErrorCode.UNKNOWN_MEMBER_ID,
    Reaction.REFUSE_REBALANCING: ErrorCode.REBALANCE_IN_PROGRESS,
    Reaction.REFUSE_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Reaction.REFUSE_NON_EMPTY: ErrorCode.NON_EMPTY_GROUP,
    Reaction.REFUSE_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
}

_POSTPONEMENT_MIN_MS = 1_000
"""The shortest wait for static members: a rebalance timeout of 0 ms would cause a busy loop."""


class GroupRebalance:
    """The state of one group, its members, and its transitions between generations."""

    def __init__(
        self, group_id: str, config: GroupCoordinatorConfig, actions: PendingActions, now_ms: int
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation = 0
        # Set by the first member. None: a simple group, which only stores offsets.
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = GroupMembers()
        self._config = config
        # How much longer the initial delay may become; None except in the first rebalance of an
        # empty group.
        self._delay_left_ms: int | None = None
        self._delay_ms = 0
        self._joined_during_delay = False
        self._actions = actions
        self._now_ms = now_ms

    def restore(self, snapshot: GroupSnapshot) -> None:
        """Restore the group from the log: with members it is Stable."""
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

    def unload(self, error: ErrorCode) -> list[Action]:
        """The broker no longer leads the partition: answer parked requests, cancel all timers."""
        self.begin(self._now_ms)
        for kind in (TimerKind.INITIAL_DELAY, TimerKind.REBALANCE, TimerKind.SYNC):
            self._actions.cancel_timer(kind)
        for member_id in self.members.pending_joins:
            self._actions.cancel_timer(TimerKind.SESSION, member_id)
        for member in self.members.by_id.values():
            self._actions.cancel_timer(TimerKind.SESSION, member.member_id)
            self._actions.answer_join(member, JoinResult(member.member_id, error))
            self._actions.answer_sync(member, SyncResult(error))
        return self._actions.drain()

    def snapshot(self, assignments: dict[str, bytes]) -> GroupSnapshot:
        """The group as it is written to the log, with these assignments."""
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

    # State and reactions.

    def begin(self, now_ms: int) -> None:
        """Begin to handle an event. The previous event's actions must have been drained."""
        assert not self._actions, "the actions of the previous event were not drained"
        self._now_ms = now_ms

    def reaction(self, event: GroupEvent) -> Reaction:
        """The reaction to the event in the current state, from `REACTIONS`."""
        return REACTIONS[self.state, event]

    def apply(self, state: GroupState) -> None:
        """Enter a state that `NEXT_STATES` allows."""
        assert state in NEXT_STATES[self.state], f"{self.state} may not become {state}"
        self.state = state
        self.state_timestamp_ms = self._now_ms

    # Generations.

    def rebalance_or_complete(self, reaction: Reaction) -> None:
        """Carry out a reaction: begin a rebalance, complete the current one, or do neither."""
        initial = self._delay_left_ms is not None
        match reaction:
            case Reaction.REBALANCE:
                self.begin_rebalance()
            case Reaction.COMPLETE_IF_ALL_JOINED:
                if self.members.all_joined:
                    self.complete_join()
            case Reaction.COMPLETE_IF_NOT_INITIAL:
                if not initial and self.members.all_joined:
                    self.complete_join()
            case _:
                assert reaction is Reaction.IGNORE, reaction

    def on_new_member(self) -> None:
        """Note that a member was added, which extends an initial delay."""
        if self._delay_left_ms is not None:
            self._joined_during_delay = True

    def rebalance_on_join(self) -> None:
        """Begin or complete the rebalance after a join was parked."""
        if can_rebalance(self.state):
            self.begin_rebalance()
        else:
            self.rebalance_or_complete(Reaction.COMPLETE_IF_NOT_INITIAL)

    def begin_rebalance(self) -> None:
        """Park joins from now on, until all members have joined or the timeout expires."""
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.fail_syncs(ErrorCode.REBALANCE_IN_PROGRESS)
        self.members.pending_syncs.clear()
        self._actions.cancel_timer(TimerKind.SYNC)
        initial = self.state is GroupState.EMPTY
        self.apply(GroupState.PREPARING_REBALANCE)
        if initial:
            self._joined_during_delay = False
            delay_ms = self._config.group_initial_rebalance_delay_ms
            self._delay_ms = delay_ms
            self._delay_left_ms = max(self.members.rebalance_timeout_ms - delay_ms, 0)
            self._actions.set_timer(TimerKind.INITIAL_DELAY, delay_ms)
        elif self.members.all_joined:
            self.complete_join()
        else:
            self._actions.set_timer(TimerKind.REBALANCE, self.members.rebalance_timeout_ms)

    def extend_or_complete(self) -> None:
        """Extend the initial delay if members joined and time is left; else complete the join."""
        left_ms = self._delay_left_ms
        if left_ms and self._joined_during_delay:
            self._joined_during_delay = False
            # As in Kafka, the expired delay is subtracted from the remaining time.
            self._delay_left_ms = max(left_ms - self._delay_ms, 0)
            self._delay_ms = min(self._config.group_initial_rebalance_delay_ms, left_ms)
            self._actions.set_timer(TimerKind.INITIAL_DELAY, self._delay_ms)
        else:
            self.complete_join()

    def complete_join(self) -> None:
        """Begin the next generation with the joined members and all static members."""
        self._actions.cancel_timer(TimerKind.REBALANCE)
        self._actions.cancel_timer(TimerKind.INITIAL_DELAY)
        for member in self.members.missing_dynamic():
            self.members.remove(member.member_id)
            self._actions.cancel_timer(TimerKind.SESSION, member.member_id)
        if not self.members.elect_joined_leader() and len(self.members):
            # Only static members are left and none has joined: wait for their session timeouts.
            delay_ms = max(self.members.rebalance_timeout_ms, _POSTPONEMENT_MIN_MS)
            self._actions.set_timer(TimerKind.REBALANCE, delay_ms)
            return
        self._delay_left_ms = None
        self.generation += 1
        self.members.pending_syncs.clear()
        if not len(self.members):
            self.protocol_name = None
            self.apply(GroupState.EMPTY)
            self._actions.append(StoreGroup(self.snapshot({}), None))
            return
        self.protocol_name = self.members.select_protocol()
        self.apply(GroupState.COMPLETING_REBALANCE)
        for member in list(self.members.by_id.values()):
            self._actions.answer_join(member, self.generation_for(member.member_id))
            self._actions.restart_session(member)
            member.is_new = False
            self.members.pending_syncs.add(member.member_id)
        self._actions.set_timer(TimerKind.SYNC, self.members.rebalance_timeout_ms)

    def expel_unsynced(self) -> None:
        """Remove the members that have not synced in time."""
        late = list(self.members.pending_syncs)
        for member_id in late:
            self.members.remove(member_id)
            self._actions.cancel_timer(TimerKind.SESSION, member_id)
        if late:
            self.begin_rebalance()

    def distribute(self, assignments: dict[str, bytes]) -> None:
        """Answer all parked syncs with the assignment, which is now in the log."""
        for member in self.members.by_id.values():
            member.assignment = assignments.get(member.member_id, b"")
            if self._actions.answer_sync(member, self.assignment_of(member)):
                # The session timeout did not apply while the request was parked: start it again.
                self._actions.restart_session(member)
        self.apply(GroupState.STABLE)

    def fail_syncs(self, error: ErrorCode) -> None:
        """Answer all parked syncs with an error and discard the assignments."""
        for member in self.members.by_id.values():
            member.assignment = b""
            if self._actions.answer_sync(member, SyncResult(error)):
                self._actions.restart_session(member)

    # Parking and answering.

    def park_join(self, member: ClassicMember, waiter: Waiter) -> None:
        """Park a JoinGroup. The client has abandoned any earlier one of the same member."""
        self._actions.answer_join(
            member, JoinResult(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        )
        member.join_waiter = waiter

    def park_sync(self, member: ClassicMember, waiter: Waiter) -> None:
        """Park a SyncGroup. The client has abandoned any earlier one of the same member."""
        self._actions.answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_waiter = waiter
        self.mark_synced(member)

    def mark_synced(self, member: ClassicMember) -> None:
        """Note that the member has synced; the last one cancels the sync timer."""
        self.members.pending_syncs.discard(member.member_id)
        if not self.members.pending_syncs:
            self._actions.cancel_timer(TimerKind.SYNC)

    def generation_for(self, member_id: str) -> JoinResult:
        """The answer to a join, with the generation; only the leader gets the list of members."""
        leads = self.members.leader_id == member_id
        return JoinResult(
            member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.members.leader_id or "",
            members=self.members.as_joined(self.protocol_name) if leads else (),
        )

    def assignment_of(self, member: ClassicMember) -> SyncResult:
        """The answer to a sync, with the member's current assignment."""
        return SyncResult(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )
