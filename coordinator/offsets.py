"""The committed offsets of the groups of one `__consumer_offsets` partition.

Pure state, built from the log. A commit is prepared here, written by the coordinator, and applied
here once it is in the log, so that a fetch never returns an offset that could still be lost. Based
on Kafka's OffsetMetadataManager; expiry follows KIP-211.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..clients.errors import ErrorCode
from ..clients.kafka_uuid import ZERO_UUID, Uuid
from .group_actions import MemberIdentity
from .group_records import CommittedOffset, OffsetKey

NO_OFFSET = -1
NO_LEADER_EPOCH = -1


class OffsetToCommit(NamedTuple):
    """One partition of an OffsetCommit. `error` is set if the broker has already refused it."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    error: ErrorCode = ErrorCode.NONE


class OffsetsProducer(NamedTuple):
    """The producer of the transaction that commits offsets."""

    producer_id: int
    producer_epoch: int


class CommitRequest(NamedTuple):
    """An OffsetCommit or TxnOffsetCommit, with its version-dependent rules as fields."""

    group_id: str
    identity: MemberIdentity
    generation: int
    # How long to keep the offsets (v2-v4); None if the broker's retention applies.
    retention_ms: int | None
    # Whether the error for a missing group is GROUP_ID_NOT_FOUND (from version 9 on) instead of
    # ILLEGAL_GENERATION.
    knows_group_id_not_found: bool
    offsets: Sequence[OffsetToCommit]
    # None outside a transaction: the offsets take effect at once.
    producer: OffsetsProducer | None = None


class FetchTopic(NamedTuple):
    """One topic of an OffsetFetch."""

    topic: str
    topic_id: Uuid
    partitions: Sequence[int]


class MemberClaim(NamedTuple):
    """The member id and epoch in an OffsetFetch by a member of the consumer protocol."""

    member_id: str | None = None
    member_epoch: int = -1


NOBODY = MemberClaim()
"""The claim in a request from an administrator or a classic member."""

_LATEST_MS = (1 << 63) - 1
NO_COMMITTED_OFFSET = CommittedOffset(NO_OFFSET, NO_LEADER_EPOCH, "", 0, None, ZERO_UUID)
"""The answer for a partition without a committed offset; it is not an error."""

UNSTABLE_OFFSET = NO_COMMITTED_OFFSET._replace(commit_timestamp_ms=-1)
"""The answer for a partition with an offset in an undecided transaction (KIP-447)."""


class OffsetStore:
    """Offsets by group, topic and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def get(self, key: OffsetKey) -> CommittedOffset | None:
        return self._groups.get(key.group_id, {}).get(key.topic, {}).get(key.partition)

    def apply(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """Apply a record of the log; None deletes the offset."""
        if committed is not None:
            topics = self._groups.setdefault(key.group_id, {})
            topics.setdefault(key.topic, {})[key.partition] = committed
            return
        topics = self._groups.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._groups.pop(key.group_id, None)

    def group_ids(self) -> list[str]:
        """The groups with committed offsets."""
        return list(self._groups)

    def has_offsets(self, group_id: str) -> bool:
        return group_id in self._groups

    def fetch(self, group_id: str, topic: FetchTopic) -> list[CommittedOffset]:
        """One answer per partition, in order."""
        partitions = self._groups.get(group_id, {}).get(topic.topic, {})
        return [
            _of_this_topic(partitions.get(partition), topic.topic_id)
            for partition in topic.partitions
        ]

    def fetch_all(self, group_id: str) -> Iterator[tuple[str, dict[int, CommittedOffset]]]:
        """Every topic of a group with its partitions' offsets."""
        yield from self._groups.get(group_id, {}).items()

    def of_topic(self, group_id: str, topic: FetchTopic) -> Iterator[tuple[int, int]]:
        """Those of the partitions that have a committed offset, and that offset."""
        by_partition = self._groups.get(group_id, {}).get(topic.topic)
        if by_partition is None:
            return
        for partition in topic.partitions:
            committed = by_partition.get(partition)
            if committed is not None:
                offset = _of_this_topic(committed, topic.topic_id).offset
                if offset != NO_OFFSET:
                    yield partition, offset

    def keys(self, group_id: str) -> list[OffsetKey]:
        """The keys of all committed offsets of a group."""
        return [
            OffsetKey(group_id, topic, partition)
            for topic, partitions in self._groups.get(group_id, {}).items()
            for partition in partitions
        ]

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        """The keys of all committed offsets for a topic, in any group."""
        return [
            OffsetKey(group_id, topic, partition)
            for group_id, topics in self._groups.items()
            for partition in topics.get(topic, ())
        ]

    def expired(
        self, group_id: str, is_expired: Callable[[str, CommittedOffset], bool]
    ) -> list[OffsetKey]:
        """The offsets of a group for which `is_expired(topic, offset)` holds."""
        return [
            OffsetKey(group_id, topic, partition)
            for topic, partitions in self._groups.get(group_id, {}).items()
            for partition, committed in partitions.items()
            if is_expired(topic, committed)
        ]


def _of_this_topic(committed: CommittedOffset | None, topic_id: Uuid) -> CommittedOffset:
    """The offset, unless it was committed for an earlier topic of the same name."""
    if committed is None:
        return NO_COMMITTED_OFFSET
    if ZERO_UUID not in {topic_id, committed.topic_id} and topic_id != committed.topic_id:
        return NO_COMMITTED_OFFSET
    return committed


def committed_offset(
    requested: OffsetToCommit, retention_ms: int | None, now_ms: int
) -> CommittedOffset:
    """The offset to write for one partition of a commit."""
    return CommittedOffset(
        requested.offset,
        requested.leader_epoch,
        requested.metadata or "",
        now_ms,
        None if retention_ms is None else min(now_ms + retention_ms, _LATEST_MS),
        requested.topic_id,
    )


def utf16_length(text: str) -> int:
    """The length in UTF-16 units, as in Java, which `offset.metadata.max.bytes` limits."""
    return len(text) + sum(character > "\uffff" for character in text)
