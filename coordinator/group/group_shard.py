"""The groups and offsets of one partition of `__consumer_offsets`.

Sans-IO, like its groups: requests return answers and actions, and the log is replayed into state
when the broker becomes the partition's leader. Invariant: everything acknowledged is in the log,
so another broker that replays the log gets the same groups and offsets.

A group id belongs to a classic group or to a group of the consumer protocol, never to both: the
record that creates one deletes the other.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import Record, RecordBatch
from ...clients.record.control import ControlRecordType
from ..classic.classic_group import ClassicGroup
from ..classic.group_state import GroupState
from ..consumer.consumer_commits import check_commit
from ..consumer.consumer_group import ConsumerGroupState
from ..consumer.consumer_group_update import GroupChange, GroupContext
from ..consumer.consumer_groups import ConsumerGroups
from ..consumer.consumer_heartbeat import JOIN_EPOCH, ConsumerHeartbeat, HeartbeatAnswer
from ..consumer.consumer_records import consumer_record
from ..consumer.group_conversion import upgrade
from ..consumer.shard_entries import ShardEntry, read_entry
from ..group_actions import (
    NO_MEMBER_ID,
    Action,
    CompleteJoin,
    CompleteSync,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    StoreGroup,
    SyncRequest,
    SyncResult,
    Waiter,
)
from ..group_config import GroupCoordinatorConfig
from ..group_records import (
    CommittedOffset,
    GroupEntry,
    GroupRecord,
    OffsetEntry,
    OffsetKey,
    group_tombstone,
    offset_tombstone,
)
from ..led_shards import CoordinatorShard
from ..offsets import CommitRequest, OffsetsProducer, OffsetStore
from ..pending_offsets import PendingOffsets
from .offset_expiry import consumer_expiry_rule, expiry_rule


class Forgotten(NamedTuple):
    """Offsets and groups to delete, and their tombstones."""

    records: list[GroupRecord]
    offsets: list[OffsetKey]
    group_ids: list[str]
    # Whether to delete groups that still wait for a member to rejoin with its new id.
    even_if_awaited: bool = False
    consumer_group_ids: Sequence[str] = ()


class GroupShard(CoordinatorShard):
    """One partition's groups and offsets."""

    def __init__(self, partition: int, leader_epoch: int, config: GroupCoordinatorConfig) -> None:
        super().__init__(partition, leader_epoch)
        self.groups: dict[str, ClassicGroup] = {}
        self.consumer_groups = ConsumerGroups()
        self.offsets = OffsetStore()
        self._config = config
        # Offsets committed in transactions that have no marker in the log yet.
        self.pending = PendingOffsets()

    # Requests.

    def join(self, request: JoinRequest, waiter: Waiter, now_ms: int) -> list[Action]:
        """Handle a JoinGroup; a member without a member id may create the group."""
        group = self.groups.get(request.group_id)
        if group is not None:
            return group.join(request, waiter, now_ms)
        assert request.group_id not in self.consumer_groups, "not a classic group"
        if request.member_id != NO_MEMBER_ID:
            unknown = JoinResult(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            return [CompleteJoin(waiter, unknown)]
        group = ClassicGroup(request.group_id, self._config, now_ms)
        founding = group.snapshot({})
        actions = group.join(request, waiter, now_ms)
        if group.is_simple:
            # The join was refused, so the group is dropped.
            return actions
        self.groups[request.group_id] = group
        return [*actions, StoreGroup(founding, None)]

    def sync(self, request: SyncRequest, waiter: Waiter, now_ms: int) -> list[Action]:
        group = self.groups.get(request.group_id)
        if group is None:
            return [CompleteSync(waiter, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))]
        return group.sync(request, waiter, now_ms)

    def heartbeat(
        self, group_id: str, identity: MemberIdentity, generation: int, now_ms: int
    ) -> tuple[ErrorCode, list[Action]]:
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, []
        return group.heartbeat(identity, generation, now_ms)

    def leave(
        self, group_id: str, identities: Sequence[MemberIdentity], now_ms: int
    ) -> tuple[list[ErrorCode], list[Action]]:
        """Handle a LeaveGroup: an error code per member, UNKNOWN_MEMBER_ID if there is no group."""
        group = self.groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities), []
        return group.leave(identities, now_ms)

    def consumer_heartbeat(
        self, request: ConsumerHeartbeat, context: GroupContext
    ) -> tuple[GroupChange, HeartbeatAnswer]:
        """Handle a ConsumerGroupHeartbeat; a join upgrades a classic group. Raises KafkaError."""
        classic = self.groups.get(request.group_id)
        if classic is None:
            return self.consumer_groups.heartbeat(request, context)
        if request.member_epoch != JOIN_EPOCH:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {request.group_id} is not a consumer group.",
            )
        founding = [] if classic.state is GroupState.EMPTY else upgrade(classic, context)
        change, answer = self.consumer_groups.founded(founding, request, context)
        entries = (GroupEntry(request.group_id, None), *change.entries)
        return change._replace(entries=entries), answer

    def converted(self, group_id: str, change: GroupChange, now_ms: int) -> list[Action]:
        """Apply a group's change, including a conversion between protocols."""
        actions: list[Action] = []
        classic = self.groups.get(group_id)
        if classic is not None and GroupEntry(group_id, None) in change.entries:
            actions += classic.unload(ErrorCode.REBALANCE_IN_PROGRESS)
        for entry in change.entries:
            self.fold(entry, now_ms)
        self.consumer_groups.follow(group_id, change)
        actions += change.timers
        classic = self.groups.get(group_id)
        if classic is not None and change.downgrade is not None:
            protocols, rebalances = change.downgrade
            actions += classic.take_over(protocols, rebalances, now_ms)
        return actions

    def check_commit(self, request: CommitRequest, now_ms: int) -> tuple[ErrorCode, list[Action]]:
        """Check a commit: NONE, or an error code that rejects the whole commit."""
        if request.producer is not None:
            return self._check_transactional(request, now_ms), []
        consumers = self.consumer_groups.get(request.group_id)
        if consumers is not None:
            checked = check_commit(consumers, request)
            if isinstance(checked, ErrorCode):
                return checked, []
            for offset in request.offsets:
                error = offset.error or checked(offset.topic_id, offset.partition)
                if error and not offset.error:
                    return error, []
            return ErrorCode.NONE, []
        group = self.groups.get(request.group_id)
        if group is None:
            if request.generation >= 0:
                missing = ErrorCode.GROUP_ID_NOT_FOUND
                older = ErrorCode.ILLEGAL_GENERATION
                return missing if request.knows_group_id_not_found else older, []
            # An administrator or a consumer with manual assignment: create a simple group.
            group = ClassicGroup(request.group_id, self._config, now_ms)
            self.groups[request.group_id] = group
        return group.check_offset_commit(request.identity, request.generation, now_ms)

    def _check_transactional(self, request: CommitRequest, now_ms: int) -> ErrorCode:
        """NONE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION."""
        identity, generation = request.identity, request.generation
        consumers = self.consumer_groups.get(request.group_id)
        if consumers is not None:
            if generation < 0 and identity == (NO_MEMBER_ID, None):
                return ErrorCode.NONE
            checked = check_commit(consumers, request)
            is_stale = checked is ErrorCode.STALE_MEMBER_EPOCH
            error = checked if isinstance(checked, ErrorCode) else ErrorCode.NONE
            return ErrorCode.ILLEGAL_GENERATION if is_stale else error
        group = self.groups.get(request.group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = ClassicGroup(request.group_id, self._config, now_ms)
            self.groups[request.group_id] = group
        return group.check_transactional_commit(identity, generation)

    # Expiry and deletion.

    def expired(self, now_ms: int) -> Forgotten:
        """Expired offsets, and empty groups that would have no offsets left."""
        offsets: list[OffsetKey] = []
        group_ids: list[str] = []
        for group_id, group in self.groups.items():
            rule = expiry_rule(group, self._config.offsets_retention_ms, now_ms)
            expired = [] if rule is None else self._expired_offsets(group_id, rule)
            offsets.extend(expired)
            if (
                self._is_idle(group)
                and not self.pending.has_group(group_id)
                and len(expired) == len(self.offsets.keys(group_id))
            ):
                group_ids.append(group_id)
        forgotten = with_tombstones(offsets, group_ids)
        return self._with_expired_consumers(forgotten, now_ms)

    def _with_expired_consumers(self, forgotten: Forgotten, now_ms: int) -> Forgotten:
        consumer_group_ids: list[str] = []
        for group in self.consumer_groups.all():
            group_id = group.group_id
            rule = consumer_expiry_rule(group, self._config.offsets_retention_ms, now_ms)
            expired = self._expired_offsets(group_id, rule)
            forgotten.offsets.extend(expired)
            forgotten.records.extend(offset_tombstone(key) for key in expired)
            is_idle = group.state is ConsumerGroupState.EMPTY and not self.pending.has_group(
                group_id
            )
            if is_idle and len(expired) == len(self.offsets.keys(group_id)):
                forgotten.records.extend(
                    consumer_record(tombstone) for tombstone in group.tombstones()
                )
                consumer_group_ids.append(group_id)
        return forgotten._replace(consumer_group_ids=consumer_group_ids)

    def _expired_offsets(
        self, group_id: str, rule: Callable[[str, CommittedOffset], bool]
    ) -> list[OffsetKey]:
        """Offsets expired by the rule, except those with a pending transactional commit."""
        return [key for key in self.offsets.expired(group_id, rule) if not self.pending.has(key)]

    def offsets_of_topic(self, topic: str) -> Forgotten:
        """The offsets to delete for a deleted topic, undecided ones too."""
        keys = (*self.offsets.keys_of_topic(topic), *self.pending.keys_of_topic(topic))
        return with_tombstones(list(dict.fromkeys(keys)), [])

    def offset_keys(self, group_id: str) -> list[OffsetKey]:
        """The keys of a group's offsets, undecided ones too."""
        return list(dict.fromkeys((*self.offsets.keys(group_id), *self.pending.keys(group_id))))

    def has_offset(self, key: OffsetKey) -> bool:
        """Whether there is an offset, perhaps an undecided one."""
        return self.offsets.get(key) is not None or self.pending.has(key)

    def forget(self, forgotten: Forgotten, now_ms: int) -> None:
        """Delete offsets and groups whose tombstones are in the log; keep groups with members."""
        for key in forgotten.offsets:
            self._delete_offset(key)
        for group_id in forgotten.group_ids:
            group = self.groups.get(group_id)
            if group is None or group.state is not GroupState.EMPTY:
                continue
            awaited = group.members.pending_joins and not forgotten.even_if_awaited
            if awaited or self.offsets.has_offsets(group_id):
                continue
            group.delete(now_ms)
            del self.groups[group_id]
        for group_id in forgotten.consumer_group_ids:
            consumers = self.consumer_groups.get(group_id)
            if consumers is not None and not consumers.members:
                self.consumer_groups.forget(group_id)

    def _is_idle(self, group: ClassicGroup) -> bool:
        return group.state is GroupState.EMPTY and not group.members.pending_joins

    # The log.

    def apply_offsets(
        self,
        entries: Sequence[OffsetEntry],
        base_offset: int,
        now_ms: int,
        producer: OffsetsProducer | None = None,
    ) -> None:
        """Apply committed offsets that are in the log, the first at `base_offset`.

        A deletion that was appended before them may have just deleted their group.
        """
        for position, (key, committed) in enumerate(entries):
            assert committed is not None
            committed = committed._replace(record_offset=base_offset + position)
            entry = OffsetEntry(key, committed)
            if producer is None:
                self._replay_offset(entry, now_ms)
            else:
                self.pending.add(producer.producer_id, [entry])

    def replay_marker(self, batch: RecordBatch) -> None:
        """Apply the end of a transaction. Raises KafkaError."""
        is_commit = batch.control_type() is ControlRecordType.COMMIT
        self.end_transaction(batch.producer_id, is_commit, batch.max_timestamp)

    def replay_record(self, batch: RecordBatch, record: Record) -> None:
        """Apply one record of the log. Raises KafkaError(CORRUPT_MESSAGE)."""
        entry = read_entry(record.key or b"", record.value, record.offset)
        if entry is None:
            return
        if not isinstance(entry, OffsetEntry):
            self.fold(entry, batch.max_timestamp)
        elif batch.is_transactional and entry.committed is not None:
            self.pending.add(batch.producer_id, [entry])
        else:
            self._replay_offset(entry, batch.max_timestamp)

    def fold(self, entry: ShardEntry, now_ms: int) -> None:
        """Apply a group's record, which was replayed or has just been appended."""
        if isinstance(entry, GroupEntry):
            self._replay_group(entry, now_ms)
        else:
            self.consumer_groups.fold(entry)
            if entry.group_id in self.consumer_groups:
                # The group may have been a simple group, which only has offsets.
                self.groups.pop(entry.group_id, None)

    def resume(self, now_ms: int) -> list[Action]:
        """Resume the classic groups, once the log has been read."""
        return [action for group in self.groups.values() for action in group.resume(now_ms)]

    def unload(self, error: ErrorCode) -> list[Action]:
        """The partition is no longer led: answer every parked request with the error."""
        actions = [action for group in self.groups.values() for action in group.unload(error)]
        return [*actions, *self.consumer_groups.unload()]

    def _replay_group(self, entry: GroupEntry, now_ms: int) -> None:
        if entry.snapshot is None:
            self.groups.pop(entry.group_id, None)
            return
        group = ClassicGroup(entry.group_id, self._config, now_ms)
        group.restore(entry.snapshot)
        self.groups[entry.group_id] = group
        self.consumer_groups.forget(entry.group_id)

    def _delete_offset(self, key: OffsetKey) -> None:
        """Apply a tombstone: a transaction that is decided later does not bring it back."""
        self.offsets.apply(key, None)
        self.pending.discard(key)

    def _replay_offset(self, entry: OffsetEntry, now_ms: int) -> None:
        key = entry.key
        if entry.committed is None:
            self._delete_offset(key)
            return
        self.offsets.apply(key, entry.committed)
        if key.group_id not in self.groups and key.group_id not in self.consumer_groups:
            self.groups[key.group_id] = ClassicGroup(key.group_id, self._config, now_ms)

    def end_transaction(self, producer_id: int, is_commit: bool, now_ms: int) -> None:
        """Apply the pending offsets of a committed transaction, unless a later commit is newer."""
        for entry in self.pending.end(producer_id):
            assert entry.committed is not None
            committed = self.offsets.get(entry.key)
            is_newer = committed is None or committed.record_offset < entry.committed.record_offset
            if is_commit and is_newer:
                self._replay_offset(entry, now_ms)


def with_tombstones(offsets: list[OffsetKey], group_ids: list[str]) -> Forgotten:
    """These offsets and classic groups with their tombstones."""
    records = [offset_tombstone(key) for key in offsets]
    records.extend(group_tombstone(group_id) for group_id in group_ids)
    return Forgotten(records, offsets, group_ids)
