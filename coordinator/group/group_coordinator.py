"""The group coordinator: consumer groups and committed offsets over `__consumer_offsets`.

A thin shell that carries out the actions decided by the shards, one per partition of the topic
(`group_shard.py`), and by their groups: it keeps parked requests as futures, sets timers on the
event loop and appends records to the log. An answer that depends on a write is sent after it.

Requests are answered at once where possible (`ResultOrFuture`): on a single broker only joins and
syncs that need other members wait.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import TypeVar

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.create_topics import CreatableTopic
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...replication.control.controller_loop import PUBLICATION, listener_name
from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
from ..consumer.consumer_commits import check_fetch
from ..consumer.consumer_group_description import ConsumerGroupDescription, described_consumers
from ..consumer.consumer_heartbeat import ConsumerHeartbeat, HeartbeatAnswer
from ..fetched_offsets import Fetched, fetched_offsets
from ..group_actions import (
    Action,
    CancelTimer,
    CompleteJoin,
    CompleteSync,
    JoinRequest,
    JoinResult,
    Left,
    MemberIdentity,
    SetTimer,
    StoreGroup,
    SyncRequest,
    SyncResult,
    TimerKey,
    Waiter,
)
from ..group_config import ConsumerGroupConfig, GroupCoordinatorConfig
from ..group_records import OffsetKey, group_record
from ..led_shards import SHARD_ERRORS, ShardState
from ..offsets import NOBODY, CommitRequest, FetchTopic, MemberClaim
from ..offsets_log import UNAVAILABLE, Appended, OffsetsLog, append_error_to_client
from ..offsets_topic import OFFSETS_TOPIC, creatable_internal_topic
from ..result_or_future import ResultOrFuture
from .consumer_protocol import ConsumerProtocol
from .group_admin import (
    DEAD_GROUP,
    GroupDescription,
    GroupOverview,
    describe,
    group_deletion,
    list_groups,
    offsets_deletion,
)
from .group_partitions import GroupPartitions, shard_error
from .group_shard import Forgotten, GroupShard
from .group_timers import GroupTimers
from .prepared_commit import PreparedCommit, prepare_commit

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Tombstones are written in batches of this many, well below `max.message.bytes`.
_TOMBSTONES_PER_BATCH = 1_000
_MEMBER_ID_PREFIX_MAX = 4_000
_EXPIRY, _TIMERS = "offset expiry", "group timers"


class GroupCoordinator:
    """Coordinates the groups of the partitions that this broker leads."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        environment: Environment,
        log: OffsetsLog,
        supervisor: Supervisor | None = None,
    ) -> None:
        self.config = config
        self._environment = environment
        self._supervisor = supervisor or Supervisor(environment.random)
        self._partitions = GroupPartitions(config, log, self._on_loaded, self._on_lost)
        self._consumers = ConsumerProtocol(config, environment, self._partitions, self._carry_out)
        self._timers = GroupTimers(self._on_expired)
        self._joins: dict[Waiter, asyncio.Future[JoinResult]] = {}
        self._syncs: dict[Waiter, asyncio.Future[SyncResult]] = {}
        self._next_waiter: Waiter = 0
        # The newest pending write of each group's offsets.
        self._last_commits: dict[str, asyncio.Future[Appended]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def use_defaults(self, defaults: ConsumerGroupConfig) -> None:
        """Change the defaults for consumer groups without their own configuration."""
        self._consumers.use_defaults(defaults)

    # Lifecycle.

    def start(self) -> None:
        """Start the expiry sweep. Call it inside the running loop."""
        delay = self.config.offsets_retention_check_interval_ms / 1000
        self._sweep = asyncio.get_running_loop().call_later(delay, self._forget_expired)

    def stop(self) -> None:
        """Answer every parked request and cancel every timer."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._partitions.close()
        self._consumers.close()
        self._timers.close()

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Apply a new cluster image; delete the offsets of deleted topics."""
        topic = image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is not None:
            # The topic may have been created with a different partition count than configured.
            self._partitions.count = len(topic.partitions)
        # Separate steps, as in Kafka's `BrokerMetadataPublisher`: if one fails, the rest still run.
        with self._supervisor.attempt(PUBLICATION, listener_name(self._consumers.publish)):
            self._consumers.publish(image, delta)
        deleted = [
            topic.name for topic in delta.deleted_topics.values() if topic.name != OFFSETS_TOPIC
        ]
        if deleted:
            for shard in self._partitions.shards.active():
                subject = f"{OFFSETS_TOPIC}-{shard.partition} to GroupCoordinator"
                with self._supervisor.attempt(PUBLICATION, subject):
                    for name in deleted:
                        self._write_forgotten(shard, shard.offsets_of_topic(name))

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """Load a partition that this broker now leads, then serve its groups."""
        self._partitions.shards.on_elected(partition, leader_epoch)

    def on_resigned(self, partition: int) -> None:
        """Drop a partition that this broker no longer leads."""
        self._partitions.shards.on_resigned(partition)

    def _on_loaded(self, shard: GroupShard) -> None:
        self._carry_out(shard, shard.resume(self._now_ms()))
        self._carry_out(shard, shard.consumer_groups.resume(self._consumers.settings))

    def _on_lost(self, shard: GroupShard) -> None:
        self._carry_out(shard, shard.unload(ErrorCode.NOT_COORDINATOR))

    # Requests.

    def join_group(self, request: JoinRequest) -> ResultOrFuture[JoinResult]:
        """Join a group: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, or the group's answer."""
        error = self._group_id_error(request.group_id)
        lowest = self.config.group_min_session_timeout_ms
        highest = self.config.group_max_session_timeout_ms
        if not error and not lowest <= request.session_timeout_ms <= highest:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        shard = self._partitions.shard_of(request.group_id)
        error = error or shard_error(shard)
        if error or shard is None:
            return JoinResult(request.member_id, error)
        future: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        waiter = self._park(self._joins, future)
        if self._consumers.is_consumer_group(shard, request.group_id):
            self._consumers.join(shard, request, waiter)
        elif error := self._consumers.delete_empty_consumer_group(shard, request):
            refused = JoinResult(request.member_id, error)
            self._carry_out(shard, [CompleteJoin(waiter, refused)])
        else:
            self._carry_out(shard, shard.join(request, waiter, self._now_ms()))
        return future.result() if future.done() else future

    def sync_group(self, request: SyncRequest) -> ResultOrFuture[SyncResult]:
        """Sync with a group: INVALID_GROUP_ID, or the group's answer."""
        shard = self._partitions.shard_of(request.group_id)
        error = self._group_id_error(request.group_id) or shard_error(shard)
        if error or shard is None:
            return SyncResult(error)
        future: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        waiter = self._park(self._syncs, future)
        if self._consumers.is_consumer_group(shard, request.group_id):
            self._consumers.sync(shard, request, waiter)
        else:
            self._carry_out(shard, shard.sync(request, waiter, self._now_ms()))
        return future.result() if future.done() else future

    def heartbeat(self, group_id: str, identity: MemberIdentity, generation: int) -> ErrorCode:
        """Handle a Heartbeat. NONE while the group is loading: the member can't be checked yet."""
        shard = self._partitions.shard_of(group_id)
        error = self._group_id_error(group_id) or shard_error(shard)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if error or shard is None:
            return error
        if self._consumers.is_consumer_group(shard, group_id):
            return self._consumers.classic_heartbeat(shard, group_id, identity, generation)
        error, actions = shard.heartbeat(group_id, identity, generation, self._now_ms())
        self._carry_out(shard, actions)
        return error

    def leave_group(
        self, group_id: str, identities: Sequence[MemberIdentity]
    ) -> ResultOrFuture[Left]:
        """Remove members. Returns one error for the whole request, or one per member."""
        shard = self._partitions.shard_of(group_id)
        error = self._group_id_error(group_id) or shard_error(shard)
        if error or shard is None:
            return error, []
        if self._consumers.is_consumer_group(shard, group_id):
            return self._consumers.leave(shard, group_id, identities)
        errors, actions = shard.leave(group_id, identities, self._now_ms())
        self._carry_out(shard, actions)
        return ErrorCode.NONE, errors

    def consumer_group_heartbeat(
        self, request: ConsumerHeartbeat, member_id_is_ours: bool
    ) -> ResultOrFuture[HeartbeatAnswer | KafkaError]:
        """Handle a ConsumerGroupHeartbeat: a member joins, stays in or leaves a group (KIP-848)."""
        return self._consumers.heartbeat(request, member_id_is_ours)

    def prepare_commit(self, request: CommitRequest) -> Generator[None, None, PreparedCommit]:
        """Build the records of a commit, in steps."""
        return prepare_commit(request, self.config.offset_metadata_max_bytes, self._now_ms())

    def commit_offsets(self, prepared: PreparedCommit) -> ResultOrFuture[list[ErrorCode]]:
        """Commit offsets. Returns one error code per offset, in order, once they are in the log."""
        request = prepared.request
        shard = self._partitions.shard_of(request.group_id)
        error = shard_error(shard)
        if error or shard is None:
            return [offset.error or error for offset in request.offsets]
        error, actions = shard.check_commit(request, self._now_ms())
        self._carry_out(shard, actions)
        if error:
            return [offset.error or error for offset in request.offsets]
        if not prepared.entries:
            return prepared.errors
        return self._write_commit(shard, prepared)

    def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[FetchTopic] | None,
        require_stable: bool,
        claim: MemberClaim = NOBODY,
    ) -> ResultOrFuture[Fetched]:
        """The committed offsets of some topics, or of all.

        A claimed member id and epoch must be current (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH).
        With `require_stable` (KIP-447) the answer waits for pending commits, and an offset is
        UNSTABLE_OFFSET if it is part of an undecided transaction.
        """
        under_way = self._last_commits.get(group_id) if require_stable else None
        # Wait even for a finished write: its callback, which applies the offsets, runs next.
        if under_way is None:
            return self._fetch(group_id, topics, claim, require_stable)
        future: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()

        def answer(_: object) -> None:
            _settle(future, self._fetch(group_id, topics, claim, require_stable))

        under_way.add_done_callback(answer)
        return future

    def list_groups(
        self, states: Sequence[str], types: Sequence[str]
    ) -> tuple[ErrorCode, list[GroupOverview]]:
        """All coordinated groups; COORDINATOR_LOAD_IN_PROGRESS while a partition is loading."""
        for shard in self._partitions.shards.all():
            if shard.state is ShardState.LOADING:
                return SHARD_ERRORS[shard.state], []
        shards = self._partitions.shards.active()
        return ErrorCode.NONE, [
            group for shard in shards for group in list_groups(shard, states, types)
        ]

    def describe_group(self, group_id: str) -> tuple[ErrorCode, GroupDescription]:
        """Describe a group; GROUP_ID_NOT_FOUND comes with DEAD_GROUP."""
        shard = self._partitions.shard_of(group_id)
        error = shard_error(shard)
        if error or shard is None:
            return error, DEAD_GROUP._replace(state="")
        group = shard.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND, DEAD_GROUP
        return error, describe(group)

    def describe_consumer_group(
        self, group_id: str
    ) -> tuple[ErrorCode, ConsumerGroupDescription | None]:
        """Describe a group of the consumer protocol; GROUP_ID_NOT_FOUND for any other."""
        shard = self._partitions.shard_of(group_id)
        error = self._group_id_error(group_id) or shard_error(shard)
        if error or shard is None:
            return error, None
        group = shard.consumer_groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND, None
        return error, described_consumers(group, self.config)

    def delete_group(self, group_id: str) -> ResultOrFuture[ErrorCode]:
        """Delete a group. NONE once that is in the log; GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
        shard = self._partitions.shard_of(group_id)
        error = shard_error(shard)
        if error or shard is None:
            return error
        deletion = group_deletion(shard, group_id)
        return deletion if isinstance(deletion, ErrorCode) else self._delete(shard, deletion)

    def delete_offsets(
        self, group_id: str, offsets: Sequence[tuple[str, int]]
    ) -> tuple[ResultOrFuture[ErrorCode], frozenset[str]]:
        """Delete offsets. Returns NONE once that is in the log, and the topics still in use."""
        shard = self._partitions.shard_of(group_id)
        error = self._group_id_error(group_id) or shard_error(shard)
        if error or shard is None:
            return error, frozenset()
        keys = [OffsetKey(group_id, topic, partition) for topic, partition in offsets]
        prepared = offsets_deletion(shard, group_id, keys)
        if isinstance(prepared, ErrorCode):
            return prepared, frozenset()
        return self._delete(shard, prepared.deletion), prepared.in_use

    def new_member_id(self, prefix: str) -> str:
        """A member id: the client id or instance id and a random UUID, in Kafka's format."""
        raw = self._environment.random_uuid().hex()
        # The prefix may have the maximum length of a string, which the id must not exceed.
        prefix = prefix[:_MEMBER_ID_PREFIX_MAX]
        return f"{prefix}-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"

    # Transactions.

    def marker_error(self, partition: int) -> ErrorCode:
        """NOT_LEADER_OR_FOLLOWER if the partition cannot accept markers, e.g. while it loads."""
        shard = self._partitions.shards.get(partition)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if shard_error(shard) else ErrorCode.NONE

    def transaction_ended(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """Apply or drop the transaction's pending offsets once the marker is in the log.

        One move of the high watermark may complete the marker and commits before it, in any order:
        what was appended before is handled first, or it would be pending for ever.
        """
        shard = self._partitions.shards.get(partition)
        if shard is None:
            return

        def end() -> None:
            shard.end_transaction(producer_id, is_commit, self._now_ms())

        self._partitions.writer.after_outcomes(shard, end)

    # Offsets.

    def _fetch(
        self,
        group_id: str,
        topics: Sequence[FetchTopic] | None,
        claim: MemberClaim,
        require_stable: bool,
    ) -> Fetched:
        shard = self._partitions.shard_of(group_id)
        error = shard_error(shard)
        consumers = None if shard is None else shard.consumer_groups.get(group_id)
        if consumers is not None:
            error = error or check_fetch(consumers, claim)
        if error or shard is None:
            return error, []
        pending = shard.pending if require_stable else None
        return error, fetched_offsets(shard.offsets, pending, group_id, topics)

    def _write_commit(
        self, shard: GroupShard, prepared: PreparedCommit
    ) -> ResultOrFuture[list[ErrorCode]]:
        group_id, producer = prepared.request.group_id, prepared.request.producer
        # A late write may wait for long: it must not keep the batch in memory.
        entries = prepared.entries
        future: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()

        def apply(base_offset: int) -> None:
            shard.apply_offsets(entries, base_offset, self._now_ms(), producer)

        def on_written(outcome: Appended) -> None:
            error = append_error_to_client(outcome.error)
            if not outcome.error:
                apply(outcome.base_offset)
            _settle(future, [refused or error for refused in prepared.errors])

        pending = self._partitions.writer.append_batch(shard, prepared.batch, on_written, apply)
        if pending is None:
            return future.result()
        self._last_commits[group_id] = pending
        pending.add_done_callback(lambda done: self._commit_done(group_id, done))
        return future

    def _commit_done(self, group_id: str, done: asyncio.Future[Appended]) -> None:
        if self._last_commits.get(group_id) is done:
            del self._last_commits[group_id]

    def _forget_expired(self) -> None:
        for shard in self._partitions.shards.active():
            with self._supervisor.attempt(_EXPIRY, f"{OFFSETS_TOPIC}-{shard.partition}"):
                self._write_forgotten(shard, shard.expired(self._now_ms()))
        self.start()

    def _delete(self, shard: GroupShard, deletion: Forgotten) -> ResultOrFuture[ErrorCode]:
        """Write a deletion. NONE once it is in the log."""
        if not deletion.records:
            return ErrorCode.NONE
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._write_forgotten(shard, deletion, partial(_settle, future))
        return future.result() if future.done() else future

    def _write_forgotten(
        self,
        shard: GroupShard,
        forgotten: Forgotten,
        then: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        """Write tombstones in batches. If the last succeeds, delete the offsets and groups.

        `then` gets every error, and the outcome of the last batch. Deleting again is harmless.
        """

        def forget(_: int) -> None:
            shard.forget(forgotten, self._now_ms())

        def on_written(is_last: bool, outcome: Appended) -> None:
            if is_last and not outcome.error:
                forget(outcome.base_offset)
            if then is not None and (is_last or outcome.error):
                then(append_error_to_client(outcome.error))

        last = len(forgotten.records) - _TOMBSTONES_PER_BATCH
        for start in range(0, len(forgotten.records), _TOMBSTONES_PER_BATCH):
            records = forgotten.records[start : start + _TOMBSTONES_PER_BATCH]
            is_last = start >= last
            self._partitions.writer.append(
                shard,
                records,
                self._now_ms(),
                partial(on_written, is_last),
                forget if is_last else None,
            )

    # Actions of the groups.

    def _carry_out(self, shard: GroupShard, actions: Iterable[Action]) -> None:
        queue = deque(actions)
        while queue:
            match queue.popleft():
                case SetTimer(key, delay_ms, unless_set):
                    if not unless_set or key not in self._timers:
                        self._timers.set(key, delay_ms)
                case CancelTimer(key):
                    self._timers.cancel(key)
                case CompleteJoin(waiter, result):
                    _settle(self._joins.pop(waiter), result)
                case CompleteSync(waiter, result):
                    _settle(self._syncs.pop(waiter), result)
                case StoreGroup() as store:
                    self._store(shard, store)

    def _store(self, shard: GroupShard, store: StoreGroup) -> None:
        group_id = store.snapshot.group_id

        def on_written(outcome: Appended) -> None:
            group = shard.groups.get(group_id)
            if not self._partitions.shards.is_led(shard):
                return
            if outcome.error and outcome.error not in UNAVAILABLE:
                _log.warning(
                    "Group %s: its metadata could not be written: %s.",
                    group_id,
                    outcome.error.name,
                )
            if group is not None and store.sequel is not None:
                error = append_error_to_client(outcome.error)
                self._carry_out(shard, group.stored(store.sequel, error, self._now_ms()))

        self._partitions.writer.append(
            shard, [group_record(store.snapshot)], self._now_ms(), on_written
        )

    def _park(self, waiting: dict[Waiter, asyncio.Future[T]], future: asyncio.Future[T]) -> Waiter:
        self._next_waiter += 1
        waiting[self._next_waiter] = future
        return self._next_waiter

    def _on_expired(self, key: TimerKey) -> None:
        with self._supervisor.attempt(_TIMERS, key.group_id[:_MEMBER_ID_PREFIX_MAX]):
            self._on_timer(key)

    def _on_timer(self, key: TimerKey) -> None:
        shard = self._partitions.shard_of(key.group_id)
        if shard is None:
            return
        if key.group_id in shard.consumer_groups:
            self._consumers.expired(shard, key)
            return
        group = shard.groups.get(key.group_id)
        if group is not None:
            self._carry_out(shard, group.expired(key, self._now_ms()))

    # Lookups.

    def shards(self) -> Sequence[GroupShard]:
        """The partitions of `__consumer_offsets` that this broker leads, in any state."""
        return list(self._partitions.shards.all())

    def internal_topic(self, name: str) -> CreatableTopic:
        """How to create an internal topic."""
        return creatable_internal_topic(name, self.config)

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group belongs to."""
        return self._partitions.partition_of(group_id)

    def _group_id_error(self, group_id: str) -> ErrorCode:
        return ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID

    def _now_ms(self) -> int:
        return self._environment.wall_clock_ms()


def _settle(future: asyncio.Future[T], result: T) -> None:
    """Set the result, unless the future was cancelled."""
    if not future.done():
        future.set_result(result)
