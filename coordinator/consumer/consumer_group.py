"""A group of the consumer protocol (KIP-848): its state, built by applying its records.

    group + records = group'

Only records change a group, whether they were replayed from the log or have just been appended, so
every broker that loads the log gets the same group. `consumer_group_update.py` computes the records
of a request; it does not change the group.

The group epoch is bumped when the members, their subscriptions or the subscribed topics change. The
target assignment is computed for a group epoch; each member reconciles to it at its own pace
(`reconciliation.py`). The group's state follows from this:

    EMPTY         the group has no members
    ASSIGNING     the group epoch is greater than the target assignment epoch
    RECONCILING   some member has not reached the target assignment
    STABLE        all members have reached it

Based on Kafka's ConsumerGroup and ModernGroup.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...replication.metadata.cluster_image import ClusterImage
from .consumer_records import (
    ConsumerGroupEntry,
    CurrentAssignmentEntry,
    GroupMetadataEntry,
    MemberEntry,
    MemberValue,
    PartitionMetadataEntry,
    RegexEntry,
    RegexValue,
    TargetMemberEntry,
    TargetMetadataEntry,
)
from .reconciliation import CurrentAssignment
from .topic_partitions import NO_PARTITIONS, NOTHING, Partition, Partitions

LEAVE_GROUP_EPOCH = -1
"""The epoch of a member that leaves, or that has a tombstone for its current assignment."""

LEAVE_GROUP_STATIC_EPOCH = -2
"""The epoch of a static member that has left and may come back."""

_FIRST_EPOCH = 1
"""The initial group epoch and target assignment epoch, before any record (Kafka 4.3)."""

_NO_TARGET_EPOCH = -1


class ConsumerGroupState(Enum):
    """A group's state. The value is the name that Kafka's tools print; there is no DEAD state."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroupMember(NamedTuple):
    """A member: its metadata and its current assignment."""

    member_id: str
    metadata: MemberValue = MemberValue()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def epoch(self) -> int:
        return self.current.epoch

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def regex(self) -> str:
        """The subscribed regular expression; empty if there is none."""
        return self.metadata.subscribed_topic_regex or ""

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.metadata.classic is not None


class ConsumerGroup:
    """One group of the consumer protocol."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = _FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = _FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        # Member ids by instance id.
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Partitions] = {}
        # The resolved regular expressions: the topics that each one matches.
        self.regexes: dict[str, RegexValue] = {}
        # Whether the log has the group's topic metadata from before Kafka 4.1, which the next
        # refresh deletes.
        self.has_partition_metadata = False
        # Whether the topics may have changed since the hash was computed. Not in the log.
        self.is_metadata_stale = True
        self._holders: dict[Partition, str] = {}
        self._name_subscribers: dict[str, int] = {}
        self._regex_subscribers: dict[str, int] = {}

    # Applying records.

    def apply(self, entry: ConsumerGroupEntry) -> None:
        """Apply a record. `ConsumerGroups` handles the tombstone of the group itself."""
        match entry:
            case GroupMetadataEntry(value=value):
                if value is not None:
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case PartitionMetadataEntry(is_deleted=is_deleted):
                self.has_partition_metadata = not is_deleted
            case MemberEntry(member_id=member_id, value=value):
                self._apply_member(member_id, value)
            case TargetMetadataEntry(value=value):
                self.target_epoch = _NO_TARGET_EPOCH if value is None else value.epoch
                self.target_timestamp_ms = 0 if value is None else value.timestamp_ms
            case TargetMemberEntry(member_id=member_id, value=value):
                if value is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = value
            case CurrentAssignmentEntry(member_id=member_id, value=value):
                self._apply_current_assignment(member_id, value)
            case RegexEntry(regex=regex, value=value):
                if value is None:
                    self.regexes.pop(regex, None)
                else:
                    self.regexes[regex] = value

    def _apply_member(self, member_id: str, value: MemberValue | None) -> None:
        previous = self.members.get(member_id)
        if value is not None and value.instance_id is not None:
            holder = self.static_members.get(value.instance_id, member_id)
            if holder != member_id:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"The members {holder!r:.300} and {member_id!r:.300} of a consumer group have "
                    "the same instance id.",
                )
        if previous is not None:
            self._count(previous, -1)
            instance_id = previous.instance_id
            if instance_id is not None and self.static_members.get(instance_id) == member_id:
                del self.static_members[instance_id]
        if value is None:
            self.members.pop(member_id, None)
            self._release(member_id, previous)
            return
        member = ConsumerGroupMember(
            member_id, value, CurrentAssignment() if previous is None else previous.current
        )
        self.members[member_id] = member
        self._count(member, 1)
        if value.instance_id is not None:
            self.static_members[value.instance_id] = member_id

    def _apply_current_assignment(self, member_id: str, value: CurrentAssignment | None) -> None:
        previous = self.members.get(member_id)
        self._release(member_id, previous)
        if value is None:
            if previous is not None:
                left = CurrentAssignment(
                    LEAVE_GROUP_EPOCH, LEAVE_GROUP_EPOCH, previous.current.state
                )
                self.members[member_id] = previous._replace(current=left)
            return
        member = previous or ConsumerGroupMember(member_id)
        self.members[member_id] = member._replace(current=value)
        for partition in (*value.assigned, *value.revoking):
            self._holders[partition] = member_id

    def _release(self, member_id: str, member: ConsumerGroupMember | None) -> None:
        """Free the member's partitions, except those that another member holds by now."""
        if member is not None:
            for partition in (*member.current.assigned, *member.current.revoking):
                if self._holders.get(partition) == member_id:
                    del self._holders[partition]

    def _count(self, member: ConsumerGroupMember, difference: int) -> None:
        for name in member.metadata.subscribed_topic_names:
            _add(self._name_subscribers, name, difference)
        if member.regex:
            _add(self._regex_subscribers, member.regex, difference)

    # The state.

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        for member in self.members.values():
            if not member.current.is_reconciled_to(self.target_epoch):
                return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    def is_held(self, partition: Partition) -> bool:
        """Whether a member has the partition assigned, or has not revoked it yet."""
        return partition in self._holders

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None) -> Partitions:
        """A member's target assignment. A new static member inherits the replaced member's."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.targets.get(member_id, NOTHING)

    def preferred_assignor(
        self, leaving: ConsumerGroupMember | None = None, joining: ConsumerGroupMember | None = None
    ) -> str | None:
        """The assignor that most members prefer, without `leaving` and with `joining`."""
        votes: dict[str, int] = {}
        counted = [(member, 1) for member in self.members.values()]
        for member, count in (*counted, (leaving, -1), (joining, 1)):
            assignor = None if member is None else member.metadata.server_assignor
            if assignor is not None:
                votes[assignor] = votes.get(assignor, 0) + count
        best = max(votes, key=votes.__getitem__, default=None)
        return best if best is not None and votes[best] > 0 else None

    # Subscriptions.

    def regex_subscribers(self, regex: str) -> int:
        return self._regex_subscribers.get(regex, 0)

    def subscribes_to(self, topic: str) -> bool:
        """Whether any member subscribes to the topic, by name or by a regular expression."""
        if topic in self._name_subscribers:
            return True
        return any(
            topic in value.topics and regex in self._regex_subscribers
            for regex, value in self.regexes.items()
        )

    def subscribed_regexes(
        self,
        leaving: Iterable[ConsumerGroupMember] = (),
        joining: ConsumerGroupMember | None = None,
    ) -> set[str]:
        """The regular expressions of all members, without `leaving` and with `joining`."""
        counts = dict(self._regex_subscribers)
        for member in leaving:
            if member.regex:
                _add(counts, member.regex, -1)
        if joining is not None and joining.regex:
            _add(counts, joining.regex, 1)
        return set(counts)

    def subscribed_topics(
        self,
        leaving: Iterable[ConsumerGroupMember] = (),
        joining: ConsumerGroupMember | None = None,
        regexes: Mapping[str, RegexValue] | None = None,
    ) -> set[str]:
        """The topics of all members, without `leaving` and with `joining`.

        `regexes` replaces the group's resolved regular expressions if they are about to change.
        """
        leaving = tuple(leaving)
        counts = dict(self._name_subscribers)
        for member in leaving:
            for name in member.metadata.subscribed_topic_names:
                _add(counts, name, -1)
        topics = set(counts)
        if joining is not None:
            topics.update(joining.metadata.subscribed_topic_names)
        meaning = self.regexes if regexes is None else regexes
        for regex in self.subscribed_regexes(leaving, joining):
            if regex in meaning:
                topics.update(meaning[regex].topics)
        return topics

    def topic_ids_of(self, member: ConsumerGroupMember, image: ClusterImage) -> frozenset[Uuid]:
        """The topics that a member subscribes to and that exist.

        A regular expression that is not resolved yet matches nothing.
        """
        names: Iterable[str] = member.metadata.subscribed_topic_names
        meaning = self.regexes.get(member.regex) if member.regex else None
        if meaning is not None:
            names = (*names, *meaning.topics)
        topics = image.topics_by_name
        return frozenset(topics[name].topic_id for name in names if name in topics)

    # Deletion.

    def tombstones(self, renamed: Mapping[str, str] | None = None) -> list[ConsumerGroupEntry]:
        """The tombstones that delete the group, in Kafka's order.

        `renamed` maps the ids of members that have just been replaced to the new ids.
        """
        group_id, names = self.group_id, renamed or {}
        members = [names.get(member, member) for member in self.members]
        targets = [names.get(target, target) for target in self.targets]
        entries: list[ConsumerGroupEntry] = []
        entries += [CurrentAssignmentEntry(group_id, member, None) for member in members]
        entries += [TargetMemberEntry(group_id, target, None) for target in targets]
        entries.append(TargetMetadataEntry(group_id, None))
        entries += [MemberEntry(group_id, member, None) for member in members]
        entries += [RegexEntry(group_id, regex, None) for regex in self.regexes]
        entries.append(PartitionMetadataEntry(group_id, True))
        entries.append(GroupMetadataEntry(group_id, None))
        return entries


def assignment_after_leave(current: CurrentAssignment) -> CurrentAssignment:
    """The current assignment of a static member that has left and may come back.

    It keeps the assigned partitions, but not those being revoked. The assignment epochs become 0,
    so that its replacement, which starts at epoch 0, may commit for all partitions.
    """
    assigned = dict.fromkeys(current.assigned, 0)
    return current._replace(
        epoch=LEAVE_GROUP_STATIC_EPOCH, assigned=assigned, revoking=NO_PARTITIONS
    )


def _add(counts: dict[str, int], key: str, difference: int) -> None:
    count = counts.get(key, 0) + difference
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)
