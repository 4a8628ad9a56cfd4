"""A classic consumer group: its requests, timers and writes.

Sans-IO: a method takes a request or an expired timer and the current time, and returns actions
(answer a waiter, set a timer, write the group). The coordinator carries them out in order and
reports the results of writes to `stored`. The tables of `group_state.py` define the reaction in
each state. Based on the classic part of Kafka's GroupMetadataManager; KIP-345 for static members,
KIP-394 for MEMBER_ID_REQUIRED, KIP-814 for skipping the assignment.
"""

from collections.abc import Mapping, Sequence

from ...clients.errors import ErrorCode
from ..group_actions import (
    NO_MEMBER_ID,
    Action,
    AssignmentSequel,
    CompleteJoin,
    CompleteSync,
    GroupProtocol,
    GroupSnapshot,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    ReplacementSequel,
    Sequel,
    StoreGroup,
    SyncRequest,
    SyncResult,
    TimerKey,
    TimerKind,
    Waiter,
)
from ..group_config import GroupCoordinatorConfig
from .group_members import ClassicMember, GroupMembers
from .group_rebalance import REFUSALS, GroupRebalance
from .group_state import GroupEvent, GroupState, Reaction
from .pending_actions import PendingActions


class ClassicGroup:
    """One classic group. Methods that handle requests return the actions to carry out."""

    def __init__(self, group_id: str, config: GroupCoordinatorConfig, now_ms: int) -> None:
        self._config = config
        self._actions = PendingActions(group_id)
        self._rebalance = GroupRebalance(group_id, config, self._actions, now_ms)

    # The state.

    @property
    def group_id(self) -> str:
        return self._rebalance.group_id

    @property
    def state(self) -> GroupState:
        return self._rebalance.state

    @property
    def state_timestamp_ms(self) -> int:
        """The time when the group entered its state."""
        return self._rebalance.state_timestamp_ms

    @property
    def generation(self) -> int:
        return self._rebalance.generation

    @property
    def protocol_type(self) -> str | None:
        """The first member's protocol type; None for a simple group, which only stores offsets."""
        return self._rebalance.protocol_type

    @property
    def protocol_name(self) -> str | None:
        return self._rebalance.protocol_name

    @property
    def members(self) -> GroupMembers:
        return self._rebalance.members

    @property
    def is_simple(self) -> bool:
        """Whether the group only stores offsets and no member is about to join."""
        no_members = self.state is GroupState.EMPTY and not self.members.pending_joins
        return self.protocol_type is None and no_members

    def snapshot(self, assignments: dict[str, bytes]) -> GroupSnapshot:
        """The group as it is written to the log, with these assignments."""
        return self._rebalance.snapshot(assignments)

    def restore(self, snapshot: GroupSnapshot) -> None:
        """Restore the group from the log: with members it is Stable."""
        self._rebalance.restore(snapshot)

    def resume(self, now_ms: int) -> list[Action]:
        """After loading: give every member a full session timeout; rebalance an oversized group."""
        self._rebalance.begin(now_ms)
        for member in self.members.by_id.values():
            self._actions.restart_session(member)
        if len(self.members) > self._config.group_max_size:
            self._rebalance.begin_rebalance()
        return self._actions.drain()

    def take_over(
        self, protocols: Mapping[str, tuple[GroupProtocol, ...]], rebalances: bool, now_ms: int
    ) -> list[Action]:
        """Continue after a downgrade, with the members of the former consumer protocol group.

        `protocols` has all protocols that the members support; the log has only one of them.
        """
        self._rebalance.begin(now_ms)
        for member in self.members.by_id.values():
            member.protocols = protocols[member.member_id]
            self._actions.restart_session(member)
        if rebalances:
            self._rebalance.begin_rebalance()
        return self._actions.drain()

    def unload(self, error: ErrorCode) -> list[Action]:
        """The broker no longer leads the partition: answer parked requests, cancel all timers."""
        return self._rebalance.unload(error)

    # Requests.

    def join(self, request: JoinRequest, waiter: Waiter, now_ms: int) -> list[Action]:
        """Handle a JoinGroup: errors are answered at once, most joins with the next generation."""
        self._rebalance.begin(now_ms)
        if not self._has_room_for(request.member_id):
            # A member that rejoins too late, when others have filled the group, is removed.
            self._remove(request.member_id)
            self._refuse_join(waiter, NO_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif self.state is GroupState.DEAD:
            self._refuse_join(waiter, request.member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not self._supports(request.protocol_type, request.protocols):
            self._refuse_join(waiter, request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id == NO_MEMBER_ID:
            self._join_without_id(request, waiter)
        else:
            self._join_with_id(request, waiter)
        return self._actions.drain()

    def sync(self, request: SyncRequest, waiter: Waiter, now_ms: int) -> list[Action]:
        """Handle a SyncGroup: followers are answered when the leader's assignment is stored."""
        self._rebalance.begin(now_ms)
        error = self._check_sync(request)
        if error:
            self._actions.append(CompleteSync(waiter, SyncResult(error)))
            return self._actions.drain()
        leads = self.members.leader_id == request.member_id
        reaction = self._rebalance.reaction(
            GroupEvent.SYNC_LEADER if leads else GroupEvent.SYNC_FOLLOWER
        )
        member = self.members.by_id[request.member_id]
        match reaction:
            case Reaction.ANSWER_ASSIGNMENT:
                self._rebalance.mark_synced(member)
                self._actions.append(CompleteSync(waiter, self._rebalance.assignment_of(member)))
            case Reaction.AWAIT_ASSIGNMENT:
                self._rebalance.park_sync(member, waiter)
            case Reaction.STORE_ASSIGNMENT:
                self._rebalance.park_sync(member, waiter)
                self._store_assignment(request.assignments)
            case _:
                self._actions.append(CompleteSync(waiter, SyncResult(REFUSALS[reaction])))
        return self._actions.drain()

    def heartbeat(
        self, identity: MemberIdentity, generation: int, now_ms: int
    ) -> tuple[ErrorCode, list[Action]]:
        """Handle a Heartbeat. REBALANCE_IN_PROGRESS makes the member rejoin."""
        self._rebalance.begin(now_ms)
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = self.members.check(identity)
        if not error and generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error:
            return error, []
        reaction = self._rebalance.reaction(GroupEvent.HEARTBEAT)
        if reaction in REFUSALS:
            return REFUSALS[reaction], []
        self._actions.restart_session(self.members.by_id[identity.member_id])
        if reaction is Reaction.KEEP_ALIVE_REBALANCING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        return error, self._actions.drain()

    def leave(
        self, identities: Sequence[MemberIdentity], now_ms: int
    ) -> tuple[list[ErrorCode], list[Action]]:
        """Handle a LeaveGroup: one error code per member, in the given order."""
        self._rebalance.begin(now_ms)
        if self.state is GroupState.DEAD:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(identities), []
        errors = [self._leave_one(identity) for identity in identities]
        if ErrorCode.NONE in errors:
            self._rebalance.rebalance_or_complete(self._rebalance.reaction(GroupEvent.MEMBERS_LEFT))
        return errors, self._actions.drain()

    def check_offset_commit(
        self, identity: MemberIdentity, generation: int, now_ms: int
    ) -> tuple[ErrorCode, list[Action]]:
        """Check an offset commit; returns the error code (ClassicGroup.validateOffsetCommit).

        A commit proves that the member is alive, so it restarts the session timeout.
        """
        self._rebalance.begin(now_ms)
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE, []
        if generation < 0 and identity == (NO_MEMBER_ID, None):
            # A client that is not a member may commit only while the group is empty.
            return ErrorCode.UNKNOWN_MEMBER_ID, []
        error = self.members.check(identity)
        if not error and generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error:
            return error, []
        reaction = self._rebalance.reaction(GroupEvent.COMMIT_OFFSETS)
        if reaction in REFUSALS:
            return REFUSALS[reaction], []
        self._actions.restart_session(self.members.by_id[identity.member_id])
        return ErrorCode.NONE, self._actions.drain()

    def check_transactional_commit(self, identity: MemberIdentity, generation: int) -> ErrorCode:
        """Check a transaction's offset commit; returns the error code.

        The member and generation are checked only if they are sent (TxnOffsetCommit v3, KIP-447).
        """
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        is_outside = generation < 0 and self.state is GroupState.EMPTY
        if is_outside or (generation < 0 and identity == (NO_MEMBER_ID, None)):
            return ErrorCode.NONE
        error = self.members.check(identity)
        if not error and generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return error

    def delete(self, now_ms: int) -> ErrorCode:
        """Mark the group Dead, or return NON_EMPTY_GROUP if it has members."""
        self._rebalance.begin(now_ms)
        reaction = self._rebalance.reaction(GroupEvent.DELETE)
        if reaction is Reaction.DIE:
            self._rebalance.apply(GroupState.DEAD)
            return ErrorCode.NONE
        return REFUSALS[reaction]

    # Timers and writes.

    def expired(self, key: TimerKey, now_ms: int) -> list[Action]:
        """Handle an expired timer."""
        self._rebalance.begin(now_ms)
        match key.kind:
            case TimerKind.SESSION:
                self._session_expired(key.member_id)
            case TimerKind.REBALANCE:
                if self._rebalance.reaction(GroupEvent.REBALANCE_EXPIRED) is Reaction.COMPLETE_JOIN:
                    self._rebalance.complete_join()
            case TimerKind.INITIAL_DELAY:
                event = GroupEvent.INITIAL_DELAY_EXPIRED
                if self._rebalance.reaction(event) is Reaction.EXTEND_OR_COMPLETE:
                    self._rebalance.extend_or_complete()
            case TimerKind.SYNC:
                if self._rebalance.reaction(GroupEvent.SYNC_EXPIRED) is Reaction.EXPEL_UNSYNCED:
                    self._rebalance.expel_unsynced()
            case TimerKind.JOIN:
                # A leftover timer from before the downgrade from the consumer protocol.
                pass
        return self._actions.drain()

    def stored(self, sequel: Sequel, error: ErrorCode, now_ms: int) -> list[Action]:
        """Handle the result of a write that this group has requested."""
        self._rebalance.begin(now_ms)
        if isinstance(sequel, ReplacementSequel):
            self._replacement_stored(sequel, error)
        elif sequel.generation == self.generation:
            event = GroupEvent.ASSIGNMENT_LOST if error else GroupEvent.ASSIGNMENT_STORED
            match self._rebalance.reaction(event):
                case Reaction.DISTRIBUTE:
                    self._rebalance.distribute(sequel.assignments)
                case Reaction.ABANDON_ASSIGNMENT:
                    self._rebalance.fail_syncs(error)
                    self._rebalance.begin_rebalance()
                case _:
                    pass
        return self._actions.drain()

    # Joining.

    def _has_room_for(self, member_id: str) -> bool:
        """Whether `group.max.size` allows this join; in a rebalance, the first to join are kept."""
        limit = self._config.group_max_size
        match self.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                member = self.members.by_id.get(member_id)
                parked = member is not None and member.join_waiter is not None
                return parked or self.members.awaiting_join < limit
            case _:
                return member_id in self.members or len(self.members) < limit

    def _supports(self, protocol_type: str, protocols: Sequence[GroupProtocol]) -> bool:
        """Whether the group could still agree on a protocol with this member."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        common = self.members.common_protocols()
        return protocol_type == self.protocol_type and any(name in common for name, _ in protocols)

    def _refuse_join(self, waiter: Waiter, member_id: str, error: ErrorCode) -> None:
        self._actions.append(CompleteJoin(waiter, JoinResult(member_id, error)))

    def _join_without_id(self, request: JoinRequest, waiter: Waiter) -> None:
        new_id = request.new_member_id
        if request.instance_id in self.members.static_ids:
            self._replace_static(request, waiter)
        elif request.instance_id is None and request.requires_known_member_id:
            self.members.pending_joins.add(new_id)
            self._actions.set_timer(TimerKind.SESSION, request.session_timeout_ms, new_id)
            self._refuse_join(waiter, new_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add_member(request, new_id, waiter)

    def _join_with_id(self, request: JoinRequest, waiter: Waiter) -> None:
        if request.member_id in self.members.pending_joins and request.instance_id is None:
            self._add_member(request, request.member_id, waiter)
            return
        error = self.members.check(MemberIdentity(request.member_id, request.instance_id))
        if error:
            self._refuse_join(waiter, request.member_id, error)
            return
        member = self.members.by_id[request.member_id]
        reaction = self._rebalance.reaction(self._rejoin_event(member, request))
        match reaction:
            case Reaction.UPDATE_MEMBER:
                self._update(member, request)
                self._rebalance.park_join(member, waiter)
                self._rebalance.rebalance_on_join()
            case Reaction.ANSWER_GENERATION:
                answer = self._rebalance.generation_for(member.member_id)
                self._actions.append(CompleteJoin(waiter, answer))
            case _:
                self._refuse_join(waiter, request.member_id, REFUSALS[reaction])

    def _rejoin_event(self, member: ClassicMember, request: JoinRequest) -> GroupEvent:
        if member.protocols != request.protocols:
            return GroupEvent.REJOIN_CHANGED
        if self.members.leader_id == member.member_id:
            return GroupEvent.REJOIN_LEADER
        return GroupEvent.REJOIN_UNCHANGED

    def _add_member(self, request: JoinRequest, member_id: str, waiter: Waiter) -> None:
        assert self._rebalance.reaction(GroupEvent.JOIN_NEW) is Reaction.ADD_MEMBER
        if not len(self.members):
            self._rebalance.protocol_type = request.protocol_type
        self._rebalance.on_new_member()
        member = ClassicMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            is_new=True,
        )
        self.members.add(member)
        self._rebalance.park_join(member, waiter)
        # Until the join is answered, the member has no id for heartbeats, and its connection is not
        # read. Without this timeout, nothing would detect that its client is gone.
        self._actions.set_timer(
            TimerKind.SESSION, self._config.new_member_join_timeout_ms, member_id
        )
        self._rebalance.rebalance_on_join()

    def _update(self, member: ClassicMember, request: JoinRequest) -> None:
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms

    # Static members.

    def _replace_static(self, request: JoinRequest, waiter: Waiter) -> None:
        """Replace a returning static member and fence its old id, without rebalance if possible."""
        assert request.instance_id is not None
        reaction = self._rebalance.reaction(GroupEvent.JOIN_REPLACING)
        if reaction in REFUSALS:
            self._refuse_join(waiter, NO_MEMBER_ID, REFUSALS[reaction])
            return
        leader_before = self.members.leader_id or ""
        old, new = self._swap(request.instance_id, request.new_member_id)
        sequel = ReplacementSequel(
            request.instance_id,
            old.member_id,
            new.member_id,
            old.protocols,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            leader_before,
            request.supports_skipping_assignment,
        )
        self._update(new, request)
        self._rebalance.park_join(new, waiter)
        match reaction:
            case Reaction.REPLACE_AND_WAIT:
                self._rebalance.rebalance_or_complete(Reaction.COMPLETE_IF_NOT_INITIAL)
            case Reaction.REPLACE_AND_REBALANCE:
                # The leader may already have the old id, and would assign to the fenced member.
                self._rebalance.begin_rebalance()
            case _ if self.members.select_protocol() != self.protocol_name:
                self._rebalance.begin_rebalance()
            case _:
                assignments = {
                    member.member_id: member.assignment for member in self.members.by_id.values()
                }
                self._actions.append(StoreGroup(self.snapshot(assignments), sequel))

    def _swap(self, instance_id: str, new_member_id: str) -> tuple[ClassicMember, ClassicMember]:
        old, new = self.members.replace_static(instance_id, new_member_id)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self._actions.answer_join(old, JoinResult(old.member_id, fenced))
        self._actions.answer_sync(old, SyncResult(fenced))
        self._actions.cancel_timer(TimerKind.SESSION, old.member_id)
        self._actions.restart_session(new)
        return old, new

    def _replacement_stored(self, sequel: ReplacementSequel, error: ErrorCode) -> None:
        """Answer the returning member, or restore its old id if the write has failed."""
        member = self.members.by_id.get(sequel.new_member_id)
        if member is None or member.join_waiter is None:
            # The member left, or a rebalance answered it, before the write was done.
            return
        if not error:
            answer = self._rebalance.generation_for(member.member_id)
            if sequel.supports_skipping_assignment:
                leads = self.members.leader_id == member.member_id
                self._actions.answer_join(member, answer._replace(skip_assignment=leads))
            else:
                # A member named as leader would compute an assignment: name the old leader id.
                self._actions.answer_join(
                    member, answer._replace(leader=sequel.old_leader, members=())
                )
            return
        failed = JoinResult(
            NO_MEMBER_ID,
            error,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            sequel.old_leader,
        )
        self._actions.answer_join(member, failed)
        member.protocols = sequel.old_protocols
        member.rebalance_timeout_ms = sequel.old_rebalance_timeout_ms
        member.session_timeout_ms = sequel.old_session_timeout_ms
        self._swap(sequel.instance_id, sequel.old_member_id)

    # Syncing.

    def _check_sync(self, request: SyncRequest) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.members.check(MemberIdentity(request.member_id, request.instance_id))
        if error:
            return error
        if request.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        # KIP-559: versions before 5 do not have these fields, so there is nothing to compare.
        type_differs = request.protocol_type not in {None, self.protocol_type}
        name_differs = request.protocol_name not in {None, self.protocol_name}
        if type_differs or name_differs:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _store_assignment(self, assigned: dict[str, bytes]) -> None:
        """Store the assignment, empty for members that the leader omits; ignore unknown members."""
        assignments = {member_id: assigned.get(member_id, b"") for member_id in self.members.by_id}
        sequel = AssignmentSequel(self.generation, assignments)
        self._actions.append(StoreGroup(self.snapshot(assignments), sequel))

    # Leaving.

    def _leave_one(self, identity: MemberIdentity) -> ErrorCode:
        member_id = identity.member_id
        if member_id == NO_MEMBER_ID:
            # Administrators remove static members by instance id alone.
            owner = self.members.static_ids.get(identity.instance_id or "")
            if owner is None or identity.instance_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = owner
        elif member_id not in self.members.pending_joins:
            error = self.members.check(identity)
            if error:
                return error
        self._remove(member_id)
        return ErrorCode.NONE

    def _remove(self, member_id: str) -> None:
        """Remove a member and answer its parked request with UNKNOWN_MEMBER_ID."""
        self._actions.cancel_timer(TimerKind.SESSION, member_id)
        member = self.members.remove(member_id)
        if member is not None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            self._actions.answer_join(member, JoinResult(NO_MEMBER_ID, unknown))
            self._actions.answer_sync(member, SyncResult(unknown))

    def _session_expired(self, member_id: str) -> None:
        if member_id in self.members.pending_joins:
            self._remove(member_id)
            self._rebalance.rebalance_or_complete(self._rebalance.reaction(GroupEvent.PENDING_LEFT))
            return
        member = self.members.by_id.get(member_id)
        if member is None or member.outlives_session:
            return
        self._remove(member_id)
        self._rebalance.rebalance_or_complete(self._rebalance.reaction(GroupEvent.SESSION_EXPIRED))
