"""The committed offsets of the groups of one `__consumer_offsets` partition.

Pure state: what the log says, folded. A commit is decided here, written by the coordinator, and
applied here when the log has it, so that a fetch never shows an offset that could still be lost.
After Kafka's OffsetMetadataManager; expiry is KIP-211's.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from .group_actions import MemberIdentity
from .group_records import CommittedOffset, OffsetKey

NO_OFFSET = -1
NO_LEADER_EPOCH = -1


class OffsetToCommit(NamedTuple):
    """One partition of an OffsetCommit. `error` is set where the broker refused it beforehand."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    error: ErrorCode = ErrorCode.NONE


class OffsetsProducer(NamedTuple):
    """The producer in whose transaction offsets are committed."""

    producer_id: int
    producer_epoch: int


class CommitRequest(NamedTuple):
    """An OffsetCommit or TxnOffsetCommit, with what its version implies spelled out."""

    group_id: str
    identity: MemberIdentity
    generation: int
    # How long to keep the offsets (v2-v4); None where the broker's retention decides.
    retention_ms: int | None
    # From version 9 a missing group is GROUP_ID_NOT_FOUND, before that ILLEGAL_GENERATION.
    knows_group_id_not_found: bool
    offsets: Sequence[OffsetToCommit]
    # None where the offsets count at once.
    producer: OffsetsProducer | None = None


class FetchTopic(NamedTuple):
    """One topic of an OffsetFetch."""

    topic: str
    topic_id: Uuid
    partitions: Sequence[int]


class MemberClaim(NamedTuple):
    """Who says that it asks as a member of a group of the consumer protocol, and its epoch."""

    member_id: str | None = None
    member_epoch: int = -1


NOBODY = MemberClaim()
"""Who asks without saying so: an administrator, or a member of a classic group."""

_LATEST_MS = (1 << 63) - 1
NO_COMMITTED_OFFSET = CommittedOffset(NO_OFFSET, NO_LEADER_EPOCH, "", 0, None, ZERO_UUID)
"""The answer for a partition for which nothing was committed; no error goes with it."""

UNSTABLE_OFFSET = NO_COMMITTED_OFFSET._replace(commit_timestamp_ms=-1)
"""The answer for a partition whose offset a transaction has yet to decide (KIP-447)."""


class OffsetStore:
    """Offsets by group, topic and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def get(self, key: OffsetKey) -> CommittedOffset | None:
        return self._groups.get(key.group_id, {}).get(key.topic, {}).get(key.partition)

    def apply(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """Take over what the log says; None deletes."""
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

    def has_offsets(self, group_id: str) -> bool:
        return group_id in self._groups

    def fetch(self, group_id: str, topic: FetchTopic) -> list[CommittedOffset]:
        """One answer a partition, in order."""
        partitions = self._groups.get(group_id, {}).get(topic.topic, {})
        return [
            _of_this_topic(partitions.get(partition), topic.topic_id)
            for partition in topic.partitions
        ]

    def fetch_all(self, group_id: str) -> Iterator[tuple[str, dict[int, CommittedOffset]]]:
        """Every topic of a group with its partitions' offsets."""
        yield from self._groups.get(group_id, {}).items()

    def keys(self, group_id: str) -> list[OffsetKey]:
        """Everything that is committed for a group."""
        return [
            OffsetKey(group_id, topic, partition)
            for topic, partitions in self._groups.get(group_id, {}).items()
            for partition in partitions
        ]

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        """What any group has committed for a topic."""
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
    """An offset of a topic that was deleted and made again is no offset of this one."""
    if committed is None:
        return NO_COMMITTED_OFFSET
    if ZERO_UUID not in {topic_id, committed.topic_id} and topic_id != committed.topic_id:
        return NO_COMMITTED_OFFSET
    return committed


def committed_offset(
    requested: OffsetToCommit, retention_ms: int | None, now_ms: int
) -> CommittedOffset:
    """What is written for one partition of a commit."""
    return CommittedOffset(
        requested.offset,
        requested.leader_epoch,
        requested.metadata or "",
        now_ms,
        None if retention_ms is None else min(now_ms + retention_ms, _LATEST_MS),
        requested.topic_id,
    )


def utf16_length(text: str) -> int:
    """The length of a text as Java counts it, which is what `offset.metadata.max.bytes` limits."""
    return len(text) + sum(character > "\uffff" for character in text)
