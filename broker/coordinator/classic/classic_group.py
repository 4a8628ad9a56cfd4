"""A classic consumer group: its requests, its timers, its writes.

Sans-IO: a request or an expired timer goes in with the wall clock, actions come out (answer this
waiter, set that timer, write the group). The coordinator carries them out in order and comes back
with the outcome of writes (`stored`). What is done in which state is in the tables of
`group_state.py`. After Kafka's GroupMetadataManager, classic part; KIP-345 for static members,
KIP-394 for MEMBER_ID_REQUIRED, KIP-814 for skipping the assignment.
"""

from collections.abc import Mapping, Sequence

from ....clients.errors import ErrorCode
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
    """One group. Every public method that takes a request answers the actions to carry out."""

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
        """When the group entered its state."""
        return self._rebalance.state_timestamp_ms

    @property
    def generation(self) -> int:
        return self._rebalance.generation

    @property
    def protocol_type(self) -> str | None:
        """None: a simple group, which only stores offsets. Set by the first member."""
        return self._rebalance.protocol_type

    @property
    def protocol_name(self) -> str | None:
        return self._rebalance.protocol_name

    @property
    def members(self) -> GroupMembers:
        return self._rebalance.members

    @property
    def is_simple(self) -> bool:
        """Only stores offsets, and nobody is about to join."""
        no_members = self.state is GroupState.EMPTY and not self.members.pending_joins
        return self.protocol_type is None and no_members

    def snapshot(self, assignments: dict[str, bytes]) -> GroupSnapshot:
        """The group as it goes to the log, with these assignments."""
        return self._rebalance.snapshot(assignments)

    def restore(self, snapshot: GroupSnapshot) -> None:
        """Become what the log says: members back means that the group was stable."""
        self._rebalance.restore(snapshot)

    def resume(self, now_ms: int) -> list[Action]:
        """After loading: every member gets a full session timeout."""
        self._rebalance.begin(now_ms)
        for member in self.members.by_id.values():
            self._actions.restart_session(member)
        if len(self.members) > self._config.group_max_size:
            self._rebalance.begin_rebalance()
        return self._actions.drain()

    def take_over(
        self, protocols: Mapping[str, tuple[GroupProtocol, ...]], rebalances: bool, now_ms: int
    ) -> list[Action]:
        """Go on with the members of a group of the consumer protocol, which this was before.

        They are as the log says but for the protocols that they support, of which it has one.
        """
        self._rebalance.begin(now_ms)
        for member in self.members.by_id.values():
            member.protocols = protocols[member.member_id]
            self._actions.restart_session(member)
        if rebalances:
            self._rebalance.begin_rebalance()
        return self._actions.drain()

    def unload(self, error: ErrorCode) -> list[Action]:
        """The coordinator moves away: answer every parked request and cancel every timer."""
        return self._rebalance.unload(error)

    # Requests.

    def join(self, request: JoinRequest, waiter: Waiter, now_ms: int) -> list[Action]:
        """A JoinGroup: answered at once where refused, else when the generation begins."""
        self._rebalance.begin(now_ms)
        if not self._has_room_for(request.member_id):
            # Who lost its place to others while it was away loses it for good.
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
        """A SyncGroup: a follower's is answered when the leader's assignment is stored."""
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
        """NONE, REBALANCE_IN_PROGRESS (rejoin), or why the member is not one of this generation."""
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
        if reaction is Reaction.KEEP_ALIVE_AND_CALL:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        return error, self._actions.drain()

    def leave(
        self, identities: Sequence[MemberIdentity], now_ms: int
    ) -> tuple[list[ErrorCode], list[Action]]:
        """A LeaveGroup: one error code a member, in the order given."""
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
        """Whether offsets may be committed (ClassicGroup.validateOffsetCommit).

        A commit proves that the member lives and restarts its session timeout.
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
        """Whether a transaction may commit offsets. Who it consumes for is asked only if it says.

        TxnOffsetCommit has had the fields since version 3 (KIP-447).
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
        """Mark the group dead: NON_EMPTY_GROUP while it has members."""
        self._rebalance.begin(now_ms)
        reaction = self._rebalance.reaction(GroupEvent.DELETE)
        if reaction is Reaction.DIE:
            self._rebalance.apply(GroupState.DEAD)
            return ErrorCode.NONE
        return REFUSALS[reaction]

    # Timers and writes.

    def expired(self, key: TimerKey, now_ms: int) -> list[Action]:
        """A timer has run out."""
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
                # Of a member in a group of the consumer protocol, which this was before.
                pass
        return self._actions.drain()

    def stored(self, sequel: Sequel, error: ErrorCode, now_ms: int) -> list[Action]:
        """The outcome of a write that this group asked for."""
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
        """`group.max.size`; while rebalancing, those who came first keep their place."""
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
        # It has no id to heartbeat with before it is answered, and a parked connection is not
        # read, so a client that has gone away would never be noticed without this limit.
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
        """A static member is back: its old id is fenced, and the other members need not rejoin."""
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
                # The old id may be on its way to the leader, who would assign to a fenced member.
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
        """Answer the returning member; go back to its old id where that could not be written."""
        member = self.members.by_id.get(sequel.new_member_id)
        if member is None or member.join_waiter is None:
            # It left, or a rebalance has answered it, while the write was under way.
            return
        if not error:
            answer = self._rebalance.generation_for(member.member_id)
            if sequel.supports_skipping_assignment:
                leads = self.members.leader_id == member.member_id
                self._actions.answer_join(member, answer._replace(skip_assignment=leads))
            else:
                # Named as the leader it would assign again, so it hears the leader's old id.
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
        # KIP-559: versions before 5 do not say, and then nothing is compared.
        type_differs = request.protocol_type not in {None, self.protocol_type}
        name_differs = request.protocol_name not in {None, self.protocol_name}
        if type_differs or name_differs:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _store_assignment(self, assigned: dict[str, bytes]) -> None:
        """Who was forgotten gets nothing; who is no member is left out."""
        assignments = {member_id: assigned.get(member_id, b"") for member_id in self.members.by_id}
        sequel = AssignmentSequel(self.generation, assignments)
        self._actions.append(StoreGroup(self.snapshot(assignments), sequel))

    # Leaving.

    def _leave_one(self, identity: MemberIdentity) -> ErrorCode:
        member_id = identity.member_id
        if member_id == NO_MEMBER_ID:
            # An administrator names a static member by its instance id alone.
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
        """Remove a member; a parked request of it is answered UNKNOWN_MEMBER_ID."""
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
