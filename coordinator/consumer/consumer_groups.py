"""The groups of the consumer protocol in one partition of `__consumer_offsets`.

Handling a request returns the records to write and what to do next; the groups change when the
records are applied, as soon as they are appended to the log. The first member's records create a
group, and the group's tombstone deletes it. Based on the consumer half of Kafka's
GroupMetadataManager.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from ...clients.errors import ErrorCode, KafkaError
from ..group_actions import CancelTimer, SetTimer, TimerKey, TimerKind
from ..group_config import ConsumerGroupConfig
from .consumer_group import ConsumerGroup, ConsumerGroupState
from .consumer_group_update import GroupChange, GroupContext, GroupUpdate
from .consumer_heartbeat import JOIN_EPOCH, ConsumerHeartbeat, HeartbeatAnswer, heartbeat, leave
from .consumer_records import (
    ConsumerGroupEntry,
    GroupMetadataEntry,
    PartitionMetadataEntry,
    RegexEntry,
    RegexValue,
)
from .group_conversion import fence
from .reconciliation import MemberState


class ConsumerGroups:
    """Consumer protocol groups by id."""

    def __init__(self) -> None:
        self._groups: dict[str, ConsumerGroup] = {}

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self._groups.get(group_id)

    def all(self) -> Collection[ConsumerGroup]:
        return self._groups.values()

    # Requests.

    def heartbeat(
        self, request: ConsumerHeartbeat, context: GroupContext
    ) -> tuple[GroupChange, HeartbeatAnswer]:
        """Handle a heartbeat; the first member to join creates the group. Raises KafkaError."""
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_epoch != JOIN_EPOCH:
                kind = "Group" if request.leaves else "Consumer group"
                raise KafkaError(
                    ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {request.group_id} not found."
                )
            group = ConsumerGroup(request.group_id)
        if request.leaves:
            return leave(group, request, context)
        return heartbeat(group, request, context)

    def founded(
        self,
        founding: Sequence[ConsumerGroupEntry],
        request: ConsumerHeartbeat,
        context: GroupContext,
    ) -> tuple[GroupChange, HeartbeatAnswer]:
        """Handle a join that upgrades a classic group: the upgrade's records, then the member's."""
        group = ConsumerGroup(request.group_id)
        for entry in founding:
            group.apply(entry)
        sessions = [
            SetTimer(
                TimerKey(group.group_id, TimerKind.SESSION, member.member_id),
                member.metadata.classic.session_timeout_ms,
            )
            for member in group.members.values()
            if member.metadata.classic is not None
        ]
        change, answer = heartbeat(group, request, context)
        return (
            change._replace(
                entries=(*founding, *change.entries), timers=(*sessions, *change.timers)
            ),
            answer,
        )

    def expired(self, key: TimerKey, context: GroupContext) -> GroupChange:
        """Fence a member whose session has expired or that has not revoked partitions in time."""
        group = self._groups.get(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is None or member is None:
            return GroupChange()
        if key.kind is TimerKind.REBALANCE:
            # Nothing to wait for if the member has left temporarily or has revoked by now.
            is_late = member.current.state is MemberState.UNREVOKED_PARTITIONS and member.epoch >= 0
            if not is_late:
                return GroupChange()
        return fence(group, (member,), context)

    def resolved(
        self, group_id: str, resolved: Mapping[str, RegexValue], context: GroupContext
    ) -> GroupChange:
        """Store the topics that regexes match; the group rebalances if they have changed."""
        group = self._groups.get(group_id)
        if group is None:
            return GroupChange()
        update = GroupUpdate(group, context)
        subscribed = {each: resolved[each] for each in resolved if group.regex_subscribers(each)}
        is_new = False
        for regex, value in subscribed.items():
            previous = group.regexes.get(regex)
            is_new |= (() if previous is None else previous.topics) != value.topics
            update.entries.append(RegexEntry(group_id, regex, value))
        topics = group.subscribed_topics(regexes={**group.regexes, **subscribed})
        metadata_hash = context.hashes.group_hash(topics, context.image)
        if is_new or metadata_hash != group.metadata_hash:
            update.bump(metadata_hash)
        return update.change()

    def deletion(self, group_id: str) -> ErrorCode | list[ConsumerGroupEntry]:
        """The tombstones that delete a group, or NON_EMPTY_GROUP."""
        group = self._groups[group_id]
        if group.state is not ConsumerGroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        return group.tombstones()

    # Applying records.

    def fold(self, entry: ConsumerGroupEntry) -> None:
        """Apply a record; create or remove its group if necessary."""
        group = self._groups.get(entry.group_id)
        if isinstance(entry, GroupMetadataEntry) and entry.value is None:
            self._groups.pop(entry.group_id, None)
            return
        if group is None:
            if _deletes(entry):
                return
            group = self._groups[entry.group_id] = ConsumerGroup(entry.group_id)
        group.apply(entry)

    def forget(self, group_id: str) -> None:
        """Remove a group that is deleted or has changed to another type."""
        self._groups.pop(group_id, None)

    def follow(self, group_id: str, change: GroupChange) -> None:
        """Mark a group's metadata as current if an applied change has computed its hash again."""
        group = self._groups.get(group_id)
        if group is not None and change.is_refreshed:
            group.is_metadata_stale = False

    # Topic changes and leadership.

    def topics_changed(self, topics: Collection[str]) -> None:
        """Let the groups that subscribe to a topic check their topics at the next heartbeat."""
        for group in self._groups.values():
            if any(group.subscribes_to(topic) for topic in topics):
                group.is_metadata_stale = True

    def resume(self, settings: Callable[[str], ConsumerGroupConfig]) -> list[SetTimer]:
        """After loading, start all session timers and the timers of members that are revoking."""
        timers: list[SetTimer] = []
        for group_id, group in self._groups.items():
            session_ms = settings(group_id).session_timeout_ms
            for member_id, member in group.members.items():
                key = TimerKey(group_id, TimerKind.SESSION, member_id)
                timers.append(SetTimer(key, session_ms))
                if member.current.state is MemberState.UNREVOKED_PARTITIONS:
                    key = TimerKey(group_id, TimerKind.REBALANCE, member_id)
                    timers.append(SetTimer(key, member.metadata.rebalance_timeout_ms))
        return timers

    def unload(self) -> list[CancelTimer]:
        """The broker no longer leads the partition: cancel every timer."""
        return [
            CancelTimer(TimerKey(group_id, kind, member_id))
            for group_id, group in self._groups.items()
            for member_id in group.members
            for kind in (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC)
        ]


def _deletes(entry: ConsumerGroupEntry) -> bool:
    if isinstance(entry, PartitionMetadataEntry):
        return entry.is_deleted
    return entry.value is None
