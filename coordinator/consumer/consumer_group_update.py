"""Computes the records of a consumer protocol group when a member joins, heartbeats or leaves.

Sans-IO and without side effects: a `GroupUpdate` reads the group and collects the records to
write; the group changes when it applies them (`consumer_group.py`). A request goes through the same
steps in either protocol:

    replace     a returning static member takes over its previous metadata and assignment
    subscribe   the member's metadata is updated
    resolve     its regular expression is checked, and looked up if it is not resolved yet
    refresh     the group epoch is bumped if subscriptions or topics have changed
    assign      the target assignment is computed, unless the last one is too recent
    reconcile   the member moves towards its target assignment

Based on Kafka's GroupMetadataManager and TargetAssignmentBuilder, with the same order of records.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from ...replication.metadata.cluster_image import ClusterImage
from ..group_actions import CancelTimer, GroupProtocol, SetTimer, TimerKey, TimerKind
from ..group_config import ConsumerGroupConfig, GroupCoordinatorConfig
from .assignor_members import AssignorMember
from .assignors import ASSIGNORS
from .consumer_group import ConsumerGroup, ConsumerGroupMember
from .consumer_records import (
    CurrentAssignmentEntry,
    GroupEpochValue,
    GroupMetadataEntry,
    MemberEntry,
    MemberValue,
    PartitionMetadataEntry,
    RegexEntry,
    TargetEpochValue,
    TargetMemberEntry,
    TargetMetadataEntry,
)
from .describable import Describable
from .metadata_hash import MetadataHashes
from .reconciliation import CurrentAssignment, HeartbeatTarget, MemberState, reconcile
from .shard_entries import ShardEntry
from .topic_partitions import Partitions

REGEX_REFRESH_MIN_INTERVAL_MS = 10_000
"""The minimum time between two lookups of a group's regular expressions."""


class GroupContext(NamedTuple):
    """The inputs of an update besides the group's own state."""

    image: ClusterImage
    # The metadata version at which the newest topic was created.
    new_topics_version: int
    config: GroupCoordinatorConfig
    settings: ConsumerGroupConfig
    hashes: MetadataHashes
    now_ms: int


class MemberTarget(NamedTuple):
    """A member's part of the target assignment, and the target assignment epoch."""

    epoch: int
    partitions: Partitions


class Downgrade(NamedTuple):
    """How the classic group that replaces this group continues."""

    protocols: Mapping[str, tuple[GroupProtocol, ...]]
    rebalances: bool


class GroupChange(NamedTuple):
    """The records to write, and what to do once they are written."""

    entries: tuple[ShardEntry, ...] = ()
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    # Whether the metadata hash has been computed again.
    is_refreshed: bool = False
    # Regular expressions to look up.
    unresolved: frozenset[str] = frozenset()
    # Set if the group becomes a classic group.
    downgrade: Downgrade | None = None
    # Which of the topics that the expressions match the client may describe; None if all.
    describable: Describable | None = None


class RegexUpdate(Enum):
    """How a member's regular expression has changed."""

    NO_CHANGE = "unchanged, or still none"
    CHANGED = "changed, and not resolved to topics yet"
    CHANGED_AND_RESOLVED = "changed, and already resolved to topics"


class GroupUpdate:
    """Collects the records of one request."""

    def __init__(self, group: ConsumerGroup, context: GroupContext) -> None:
        self.group = group
        self.context = context
        self.epoch = group.epoch
        self.entries: list[ShardEntry] = []
        self.timers: list[SetTimer | CancelTimer] = []
        self.downgrade: Downgrade | None = None
        self._is_refreshed = False
        self._unresolved: frozenset[str] = frozenset()
        self._topic_ids: dict[tuple[tuple[str, ...], str], frozenset[Uuid]] = {}

    def change(self) -> GroupChange:
        """The collected change."""
        return GroupChange(
            tuple(self.entries),
            tuple(self.timers),
            self._is_refreshed,
            self._unresolved,
            self.downgrade,
        )

    # The steps.

    def replace(self, old: ConsumerGroupMember, new_member_id: str) -> ConsumerGroupMember:
        """Replace a static member that returns with a new id but keeps its assignment."""
        group_id = self.group.group_id
        current = old.current._replace(epoch=0, previous_epoch=0)
        member = ConsumerGroupMember(new_member_id, old.metadata, current)
        target = self.group.target_of(old.member_id, None)
        self._remove(old)
        self.entries.append(MemberEntry(group_id, new_member_id, member.metadata))
        self.entries.append(TargetMemberEntry(group_id, new_member_id, target))
        self.entries.append(CurrentAssignmentEntry(group_id, new_member_id, current))
        return member

    def subscribe(
        self, member: ConsumerGroupMember, metadata: MemberValue
    ) -> tuple[ConsumerGroupMember, bool]:
        """Update the metadata; returns the member and whether its topic names have changed."""
        if metadata == member.metadata:
            return member, False
        self.entries.append(MemberEntry(self.group.group_id, member.member_id, metadata))
        names = member.metadata.subscribed_topic_names
        return member._replace(metadata=metadata), metadata.subscribed_topic_names != names

    def resolve(self, member: ConsumerGroupMember, updated: ConsumerGroupMember) -> RegexUpdate:
        """Check a changed regex, and request a lookup if one is due; returns how the regex changed.

        Raises KafkaError(INVALID_REGULAR_EXPRESSION).
        """
        group, old, new = self.group, member.regex, updated.regex
        update, is_wanted = RegexUpdate.NO_CHANGE, False
        if old != new:
            update = RegexUpdate.CHANGED
            if old and group.regex_subscribers(old) == 1:
                self.entries.append(RegexEntry(group.group_id, old, None))
            if not new:
                update = RegexUpdate.CHANGED_AND_RESOLVED
            elif not group.regex_subscribers(new):
                self._check_regex(new)
                is_wanted = True
            elif new in group.regexes:
                update = RegexUpdate.CHANGED_AND_RESOLVED
        regexes = group.subscribed_regexes((member,), updated)
        if regexes and self._is_lookup_due(regexes, is_wanted):
            self._unresolved = frozenset(regexes)
        return update

    def _check_regex(self, regex: str) -> None:
        # Imported only when needed: few groups use regular expressions.
        from .topic_regex import compile_regex

        compile_regex(regex)

    def _is_lookup_due(self, regexes: set[str], is_wanted: bool) -> bool:
        """Whether to look up the regexes now; all at once, so that there is only one rebalance."""
        resolved = next(iter(self.group.regexes.values()), None)
        if resolved is None:
            return True
        age_ms = self.context.now_ms - resolved.timestamp_ms
        if age_ms <= REGEX_REFRESH_MIN_INTERVAL_MS:
            return False
        return (
            is_wanted
            or len(regexes) != len(self.group.regexes)
            or resolved.version < self.context.new_topics_version
            or age_ms > self.context.config.consumer_regex_refresh_interval_ms
        )

    def refresh(
        self, is_due: bool, leaving: Iterable[ConsumerGroupMember], joining: ConsumerGroupMember
    ) -> None:
        """Bump the group epoch if that is due, or if the subscribed topics have changed."""
        if not is_due and not self.group.is_metadata_stale:
            return
        group = self.group
        topics = group.subscribed_topics(leaving, joining)
        metadata_hash = self.context.hashes.group_hash(topics, self.context.image)
        self._is_refreshed = True
        if is_due or metadata_hash != group.metadata_hash:
            self.bump(metadata_hash)
        if group.has_partition_metadata:
            self.entries.append(PartitionMetadataEntry(group.group_id, True))

    def bump(self, metadata_hash: int) -> None:
        """Bump the group epoch."""
        self.epoch += 1
        value = GroupEpochValue(self.epoch, metadata_hash)
        self.entries.append(GroupMetadataEntry(self.group.group_id, value))

    def assign(self, member: ConsumerGroupMember, updated: ConsumerGroupMember) -> MemberTarget:
        """Compute the target assignment if that is due; returns the member's part of it."""
        group, context = self.group, self.context
        if group.target_epoch >= self.epoch or not self._may_assign():
            partitions = group.target_of(updated.member_id, updated.instance_id)
            return MemberTarget(group.target_epoch, partitions)
        members = dict(group.members)
        if updated.instance_id is not None:
            replaced = group.static_members.get(updated.instance_id, updated.member_id)
            if replaced != updated.member_id:
                members.pop(replaced, None)
        members[updated.member_id] = updated
        assignor_members = {each.member_id: self._as_assigned(each) for each in members.values()}
        topic_ids = frozenset[Uuid]().union(*{each.topic_ids for each in assignor_members.values()})
        topics = context.image.topics_by_id
        sizes = {topic_id: len(topics[topic_id].partitions) for topic_id in topic_ids}
        assignor = group.preferred_assignor(member, updated)
        if assignor is None or assignor not in ASSIGNORS:
            # The broker that wrote the record may have supported other assignors.
            assignor = context.config.consumer_assignors[0]
        targets = ASSIGNORS[assignor](assignor_members, sizes)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                self.entries.append(TargetMemberEntry(group.group_id, member_id, target))
        value = TargetEpochValue(self.epoch, context.now_ms)
        self.entries.append(TargetMetadataEntry(group.group_id, value))
        return MemberTarget(self.epoch, targets[updated.member_id])

    def _may_assign(self) -> bool:
        """Whether the assignment interval has passed; joins within it share one assignment."""
        since_ms, interval_ms = (
            self.group.target_timestamp_ms,
            self.context.settings.assignment_interval_ms,
        )
        return not since_ms or not interval_ms or self.context.now_ms >= since_ms + interval_ms

    def _as_assigned(self, member: ConsumerGroupMember) -> AssignorMember:
        target = self.group.target_of(member.member_id, member.instance_id)
        return AssignorMember(member.instance_id, self._topic_ids_of(member), target)

    def _topic_ids_of(self, member: ConsumerGroupMember) -> frozenset[Uuid]:
        key = (member.metadata.subscribed_topic_names, member.regex)
        if key not in self._topic_ids:
            self._topic_ids[key] = self.group.topic_ids_of(member, self.context.image)
        return self._topic_ids[key]

    def reconcile(
        self,
        member: ConsumerGroupMember,
        target: MemberTarget,
        subscription_changed: bool,
        owned: Partitions | None,
    ) -> ConsumerGroupMember:
        """Move the member towards its target. Raises KafkaError(FENCED_MEMBER_EPOCH)."""
        if not subscription_changed and member.current.is_reconciled_to(target.epoch):
            return member
        epoch, partitions = target
        assignment = HeartbeatTarget(
            epoch, partitions, self._topic_ids_of(member), subscription_changed, owned
        )
        current = reconcile(member.current, assignment, self.group.is_held)
        if current == member.current:
            return member
        self.entries.append(CurrentAssignmentEntry(self.group.group_id, member.member_id, current))
        if not member.is_classic:
            self._time_revocation(member, current)
        return member._replace(current=current)

    def _time_revocation(self, member: ConsumerGroupMember, current: CurrentAssignment) -> None:
        key = TimerKey(self.group.group_id, TimerKind.REBALANCE, member.member_id)
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            self.timers.append(SetTimer(key, member.metadata.rebalance_timeout_ms))
        else:
            self.timers.append(CancelTimer(key))

    # Leaving.

    def fence(self, members: Iterable[ConsumerGroupMember]) -> None:
        """Remove members from the group; the next assignment gives their partitions to others."""
        group, fenced = self.group, tuple(members)
        if not fenced:
            return
        for member in fenced:
            self._remove(member)
        remaining_regexes = group.subscribed_regexes(fenced)
        for regex in dict.fromkeys(member.regex for member in fenced if member.regex):
            if regex not in remaining_regexes:
                self.entries.append(RegexEntry(group.group_id, regex, None))
        topics = group.subscribed_topics(fenced)
        self.bump(self.context.hashes.group_hash(topics, self.context.image))
        for member in fenced:
            self.cancel_timers(member.member_id)

    def cancel_timers(self, member_id: str) -> None:
        """Cancel every timer of the member."""
        group_id = self.group.group_id
        for kind in (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC):
            self.timers.append(CancelTimer(TimerKey(group_id, kind, member_id)))

    def _remove(self, member: ConsumerGroupMember) -> None:
        """Write the member's tombstones, in the order that replay relies on."""
        group_id, member_id = self.group.group_id, member.member_id
        self.entries.append(CurrentAssignmentEntry(group_id, member_id, None))
        self.entries.append(TargetMemberEntry(group_id, member_id, None))
        self.entries.append(MemberEntry(group_id, member_id, None))
