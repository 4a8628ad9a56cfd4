"""Plays members, timers and log to one classic group, in virtual time.

    group = GroupDriver()
    anna = group.join("anna")        # joins, is given its id, joins again and is parked
    group.pass_time(3_000)           # the initial delay runs out: the generation begins
    group.sync(anna, {"anna": b"all"})

Writes succeed at once unless `hold_writes` is set. Answers are kept by waiter.
"""

from tierlog.clients.errors import ErrorCode
from tierlog.clients.runtime.steps import finished
from tierlog.coordinator.classic.classic_group import ClassicGroup
from tierlog.coordinator.classic.group_state import GroupState
from tierlog.coordinator.group.group_coordinator import GroupCoordinator
from tierlog.coordinator.group.group_shard import GroupShard
from tierlog.coordinator.group.prepared_commit import PreparedCommit, prepare_commit
from tierlog.coordinator.group_actions import (
    Action,
    CancelTimer,
    CompleteJoin,
    CompleteSync,
    GroupProtocol,
    GroupSnapshot,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SetTimer,
    StoreGroup,
    SyncRequest,
    SyncResult,
    TimerKey,
    Waiter,
)
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.offsets import CommitRequest
from tierlog.coordinator.result_or_future import ResultOrFuture

RANGE = (GroupProtocol("range", b"range metadata"),)
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def checked_commit(
    shard: GroupShard, request: CommitRequest, now_ms: int
) -> tuple[ErrorCode | PreparedCommit, list[Action]]:
    """What a shard would write for a commit, or why it refuses all of it."""
    limit = GroupCoordinatorConfig().offset_metadata_max_bytes
    prepared = finished(prepare_commit(request, limit, now_ms))
    error, actions = shard.check_commit(request, now_ms)
    return error or prepared, actions


def committed(
    coordinator: GroupCoordinator, request: CommitRequest
) -> ResultOrFuture[list[ErrorCode]]:
    """Commit offsets through a coordinator, prepared in one go."""
    return coordinator.commit_offsets(finished(coordinator.prepare_commit(request)))


def join_request(member_id: str = "", name: str = "anna") -> JoinRequest:
    """A join of a modern client; `name` is its client id and becomes its member id."""
    return JoinRequest(
        group_id="group",
        member_id=member_id,
        instance_id=None,
        client_id=name,
        client_host="/127.0.0.1",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=RANGE,
        new_member_id=name,
        requires_known_member_id=True,
        supports_skipping_assignment=True,
    )


def static_request(name: str, new_member_id: str, member_id: str = "") -> JoinRequest:
    """A join of a static member whose instance id is `name`."""
    request = join_request(member_id, name)
    return request._replace(instance_id=name, new_member_id=new_member_id)


class GroupDriver:
    """One group and the world around it."""

    def __init__(self, config: GroupCoordinatorConfig | None = None) -> None:
        self.now_ms = 1_000_000
        self.group = ClassicGroup("group", config or GroupCoordinatorConfig(), self.now_ms)
        self.joins: dict[Waiter, JoinResult] = {}
        self.syncs: dict[Waiter, SyncResult] = {}
        self.log: list[GroupSnapshot] = []
        self.held: list[StoreGroup] = []
        self.hold_writes = False
        self.timers: dict[TimerKey, int] = {}
        self._last_waiter = 0

    @property
    def state(self) -> GroupState:
        return self.group.state

    def is_in(self, state: GroupState) -> bool:
        return self.group.state is state

    def send_join(self, request: JoinRequest) -> Waiter:
        """Send one JoinGroup; its answer, once there, is in `joins`."""
        waiter = self._waiter()
        self.carry_out(self.group.join(request, waiter, self.now_ms))
        return waiter

    def join(self, name: str) -> Waiter:
        """Join as a new dynamic member whose id becomes its name."""
        first = self.joins[self.send_join(join_request(name=name))]
        assert first == JoinResult(name, ErrorCode.MEMBER_ID_REQUIRED)
        return self.send_join(join_request(name, name))

    def rejoin(self, name: str) -> Waiter:
        return self.send_join(join_request(name, name))

    def sync(self, name: str, assignments: dict[str, bytes] | None = None) -> Waiter:
        """Sync as a member, bringing assignments if it leads."""
        return self.send_sync(self.sync_request(name, assignments))

    def sync_static(self, instance_id: str, member_id: str) -> Waiter:
        return self.send_sync(self.sync_request(member_id)._replace(instance_id=instance_id))

    def sync_request(
        self, member_id: str, assignments: dict[str, bytes] | None = None
    ) -> SyncRequest:
        """A sync for the generation as it is."""
        return SyncRequest(
            "group",
            member_id,
            None,
            self.group.generation,
            "consumer",
            self.group.protocol_name,
            assignments or {},
        )

    def send_sync(self, request: SyncRequest) -> Waiter:
        """Send one SyncGroup; its answer, once there, is in `syncs`."""
        waiter = self._waiter()
        self.carry_out(self.group.sync(request, waiter, self.now_ms))
        return waiter

    def heartbeat(self, name: str, generation: int | None = None) -> ErrorCode:
        error, actions = self.group.heartbeat(
            MemberIdentity(name, None),
            self.group.generation if generation is None else generation,
            self.now_ms,
        )
        self.carry_out(actions)
        return error

    def leave(self, *names: str) -> list[ErrorCode]:
        identities = [MemberIdentity(name, None) for name in names]
        errors, actions = self.group.leave(identities, self.now_ms)
        self.carry_out(actions)
        return errors

    def commit(self, name: str, generation: int | None = None) -> ErrorCode:
        error, actions = self.group.check_offset_commit(
            MemberIdentity(name, None),
            self.group.generation if generation is None else generation,
            self.now_ms,
        )
        self.carry_out(actions)
        return error

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass and timers run out, in order."""
        end_ms = self.now_ms + duration_ms
        while self.timers:
            key = min(self.timers, key=lambda key: self.timers[key])
            if self.timers[key] > end_ms:
                break
            self.now_ms = self.timers.pop(key)
            self.carry_out(self.group.expired(key, self.now_ms))
        self.now_ms = end_ms

    def settle_writes(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The outcome of the writes that were held back."""
        held, self.held = self.held, []
        for store in held:
            self._settle(store, error)

    def stable(self, leader: str, *followers: str) -> None:
        """Bring these members into one stable generation."""
        waiters = [self.join(name) for name in (leader, *followers)]
        self.pass_time(6_000 if followers else 3_000)
        assert all(not self.joins[waiter].error for waiter in waiters)
        for name in followers:
            self.sync(name)
        self.sync(leader, {name: name.encode() for name in (leader, *followers)})
        assert self.is_in(GroupState.STABLE)

    def carry_out(self, actions: list[Action]) -> None:
        """What the coordinator would do."""
        for action in actions:
            match action:
                case SetTimer(key, delay_ms):
                    self.timers[key] = self.now_ms + delay_ms
                case CancelTimer(key):
                    self.timers.pop(key, None)
                case CompleteJoin(waiter, joined):
                    assert waiter not in self.joins, "a request is answered once"
                    self.joins[waiter] = joined
                case CompleteSync(waiter, synced):
                    assert waiter not in self.syncs, "a request is answered once"
                    self.syncs[waiter] = synced
                case StoreGroup() if self.hold_writes:
                    self.held.append(action)
                case StoreGroup():
                    self._settle(action, ErrorCode.NONE)

    def _settle(self, store: StoreGroup, error: ErrorCode) -> None:
        if not error:
            self.log.append(store.snapshot)
        if store.sequel is not None:
            self.carry_out(self.group.stored(store.sequel, error, self.now_ms))

    def _waiter(self) -> Waiter:
        self._last_waiter += 1
        return self._last_waiter
