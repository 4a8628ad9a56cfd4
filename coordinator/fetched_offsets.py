"""The committed offsets of a group, as OffsetFetch returns them."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ..clients.errors import ErrorCode
from ..clients.kafka_uuid import ZERO_UUID, Uuid
from .group_records import CommittedOffset, OffsetKey
from .offsets import UNSTABLE_OFFSET, FetchTopic, OffsetStore
from .pending_offsets import PendingOffsets


class FetchedTopic(NamedTuple):
    """The committed offsets of one topic, with the topic id of the request, if any."""

    topic: str
    topic_id: Uuid
    partitions: Sequence[tuple[int, CommittedOffset]]


Fetched: TypeAlias = tuple[ErrorCode, list[FetchedTopic]]
"""The answer to an OffsetFetch of one group."""


def fetched_offsets(
    offsets: OffsetStore,
    pending: PendingOffsets | None,
    group_id: str,
    topics: Sequence[FetchTopic] | None,
) -> list[FetchedTopic]:
    """The offsets of some topics, or of all; UNSTABLE_OFFSET for those in `pending`."""
    if topics is None:
        fetched = [
            FetchedTopic(topic, ZERO_UUID, list(by_partition.items()))
            for topic, by_partition in offsets.fetch_all(group_id)
        ]
    else:
        fetched = [
            FetchedTopic(
                topic.topic,
                topic.topic_id,
                list(zip(topic.partitions, offsets.fetch(group_id, topic), strict=True)),
            )
            for topic in topics
        ]
    if pending is None or not pending.has_group(group_id):
        return fetched
    return [_unstable(topic, pending, group_id) for topic in fetched]


def _unstable(fetched: FetchedTopic, pending: PendingOffsets, group_id: str) -> FetchedTopic:
    return fetched._replace(
        partitions=[
            (
                partition,
                UNSTABLE_OFFSET
                if pending.has(OffsetKey(group_id, fetched.topic, partition))
                else committed,
            )
            for partition, committed in fetched.partitions
        ]
    )
