"""The requests of a follower to its leader, and what the responses say of each partition.

Fetch names topics by id, as it does from version 13 on, and the follower by its id and broker epoch
in the replica state, as it does from version 15 on (KIP-903): the leader must serve that version.
ListOffsets and OffsetForLeaderEpoch name topics by name (`RemoteLeaderEndPoint`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.network.refusal import refusal
from ...clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ...clients.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...clients.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ...clients.protocol.schema import Records
from ...clients.topic_partition import TopicPartition
from ...storage.remote.remote_lineage import OffsetAndEpoch
from ..partition.fetch_data import EpochEndOffset
from .followed_partitions import Asked
from .follower_asks import EpochEndAsk, FetchAsk, Fetched, OffsetAsk
from .replica_fetch_session import ReplicaId, SessionRequest


class FetchLimits(NamedTuple):
    """How long a fetch waits, and how much it returns."""

    max_wait_ms: int = 500
    """replica.fetch.wait.max.ms"""
    min_bytes: int = 1
    """replica.fetch.min.bytes"""
    max_bytes: int = 10_485_760
    """replica.fetch.response.max.bytes"""
    partition_max_bytes: int = 1_048_576
    """replica.fetch.max.bytes"""


class Follower(NamedTuple):
    """Who fetches."""

    broker_id: int
    broker_epoch: int


def fetch_request(follower: Follower, limits: FetchLimits, session: SessionRequest) -> FetchRequest:
    """The next request of a session."""
    topics: list[FetchTopic] = []
    for part in session.send:
        ask, name = part.ask, part.partition.topic_id_partition
        assert isinstance(ask, FetchAsk)
        # Only adjacent partitions share an entry, so that their order is kept.
        if not topics or topics[-1].topic_id != name.topic_id:
            topics.append(FetchTopic(topic=name.topic, topic_id=name.topic_id, partitions=[]))
        topics[-1].partitions.append(
            FetchPartition(
                partition=name.partition,
                current_leader_epoch=ask.current_leader_epoch,
                fetch_offset=ask.offset,
                last_fetched_epoch=ask.last_fetched_epoch,
                log_start_offset=ask.log_start_offset,
                partition_max_bytes=limits.partition_max_bytes,
            )
        )
    forgotten: dict[bytes, ForgottenTopic] = {}
    for topic_id, partition in session.forget:
        topic = forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[]))
        topic.partitions.append(partition)
    return FetchRequest(
        replica_state=ReplicaState(
            replica_id=follower.broker_id, replica_epoch=follower.broker_epoch
        ),
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        session_id=session.session_id,
        session_epoch=session.session_epoch,
        topics=topics,
        forgotten_topics_data=list(forgotten.values()),
    )


def fetched_partitions(response: FetchResponse) -> dict[ReplicaId, PartitionData]:
    """The partitions of a response, in order."""
    return {
        ReplicaId(topic.topic_id, partition.partition_index): partition
        for topic in response.responses
        for partition in topic.partitions
    }


def fetched_of(partition: PartitionData) -> Fetched:
    """What the response says of one partition. Its records are a view of the response."""
    diverging = partition.diverging_epoch
    has_diverged = diverging.epoch >= 0 or diverging.end_offset >= 0
    return Fetched(
        error_of(partition.error_code),
        partition.high_watermark,
        partition.log_start_offset,
        _bytes_of(partition.records),
        EpochEndOffset(diverging.epoch, diverging.end_offset) if has_diverged else None,
    )


def _bytes_of(records: Records) -> bytes | bytearray | memoryview:
    if records is None:
        return b""
    assert isinstance(records, bytes | bytearray | memoryview), "a response is in memory"
    return records


def error_of(code: int) -> ErrorCode:
    """The error with this code; UNKNOWN_SERVER_ERROR for one that this version does not define."""
    return refusal(code).code


class OffsetAnswer(NamedTuple):
    """What ListOffsets says of one partition."""

    error: ErrorCode
    offset_and_epoch: OffsetAndEpoch


class EpochEndAnswer(NamedTuple):
    """What OffsetForLeaderEpoch says of one partition."""

    error: ErrorCode
    epoch_end: EpochEndOffset


def _by_topic(asks: Iterable[Asked]) -> Iterator[tuple[str, list[Asked]]]:
    topics: dict[str, list[Asked]] = {}
    for part in asks:
        topics.setdefault(part.partition.topic_id_partition.topic, []).append(part)
    yield from topics.items()


def list_offsets_request(
    follower: Follower, asks: Sequence[Asked], timeout_ms: int
) -> ListOffsetsRequest:
    """Ask for the offset of each `OffsetAsk`; all records count, committed or not."""
    topics: list[ListOffsetsTopic] = []
    for name, of_topic in _by_topic(asks):
        topic = ListOffsetsTopic(name=name, partitions=[])
        for partition, ask in of_topic:
            assert isinstance(ask, OffsetAsk)
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=partition.topic_id_partition.partition,
                    current_leader_epoch=ask.current_leader_epoch,
                    timestamp=ask.timestamp,
                )
            )
        topics.append(topic)
    return ListOffsetsRequest(replica_id=follower.broker_id, topics=topics, timeout_ms=timeout_ms)


def listed_offsets(response: ListOffsetsResponse) -> dict[TopicPartition, OffsetAnswer]:
    """The answer for each partition."""
    return {
        TopicPartition(topic.name, partition.partition_index): OffsetAnswer(
            error_of(partition.error_code), OffsetAndEpoch(partition.offset, partition.leader_epoch)
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def epoch_ends_request(follower: Follower, asks: Sequence[Asked]) -> OffsetForLeaderEpochRequest:
    """Ask for the end of the epoch of each `EpochEndAsk`."""
    topics: list[OffsetForLeaderTopic] = []
    for name, of_topic in _by_topic(asks):
        topic = OffsetForLeaderTopic(topic=name, partitions=[])
        for partition, ask in of_topic:
            assert isinstance(ask, EpochEndAsk)
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=partition.topic_id_partition.partition,
                    current_leader_epoch=ask.current_leader_epoch,
                    leader_epoch=ask.epoch,
                )
            )
        topics.append(topic)
    return OffsetForLeaderEpochRequest(replica_id=follower.broker_id, topics=topics)


def epoch_ends(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEndAnswer]:
    """The answer for each partition."""
    return {
        TopicPartition(topic.topic, partition.partition): EpochEndAnswer(
            error_of(partition.error_code),
            EpochEndOffset(partition.leader_epoch, partition.end_offset),
        )
        for topic in response.topics
        for partition in topic.partitions
    }
