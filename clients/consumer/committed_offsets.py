"""A group's committed offsets: members commit them, and fetch them after a rebalance."""

from collections.abc import Collection, Mapping

from ..network.coordinator_lookup import GroupCoordinatorClient
from ..protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ..protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from ..topic_partition import TopicPartition

_COMMIT_BY_NAME_VERSION_MAX = 9
_FETCH_ONE_GROUP_VERSION_MAX = 7


class CommittedOffsets:
    """Commits and reads the offsets of one group, retrying for up to `timeout_ms`."""

    def __init__(self, group_id: str, coordinator: GroupCoordinatorClient, timeout_ms: int) -> None:
        self._group_id = group_id
        self._coordinator = coordinator
        self._timeout_ms = timeout_ms

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        """Commit the next offsets to read; without a member id, the group must have no members.

        Raises `KafkaError`, such as REBALANCE_IN_PROGRESS during a rebalance or ILLEGAL_GENERATION
        after one.
        """
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, partition), offset in offsets.items():
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, partitions=[]))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=""
                )
            )
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=group_instance_id,
            topics=list(topics.values()),
        )
        await self._coordinator.retry(lambda: self._commit(request), self._timeout_ms)

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets; partitions without one are left out. Raises `KafkaError`."""
        topics: dict[str, OffsetFetchRequestTopic] = {}
        for name, partition in partitions:
            topic = topics.setdefault(
                name, OffsetFetchRequestTopic(name=name, partition_indexes=[])
            )
            assert topic.partition_indexes is not None
            topic.partition_indexes.append(partition)
        request = OffsetFetchRequest(group_id=self._group_id, topics=list(topics.values()))
        return await self._coordinator.retry(lambda: self._fetch(request), self._timeout_ms)

    async def _commit(self, request: OffsetCommitRequest) -> None:
        response = await self._coordinator.ask(
            request, OffsetCommitResponse, version_max=_COMMIT_BY_NAME_VERSION_MAX
        )
        for topic in response.topics:
            for partition in topic.partitions:
                self._coordinator.raise_for(
                    partition.error_code,
                    f"The offset of {topic.name}-{partition.partition_index} was not committed.",
                )

    async def _fetch(self, request: OffsetFetchRequest) -> dict[TopicPartition, int]:
        response = await self._coordinator.ask(
            request, OffsetFetchResponse, version_max=_FETCH_ONE_GROUP_VERSION_MAX
        )
        self._coordinator.raise_for(response.error_code, "Committed offsets cannot be read.")
        committed: dict[TopicPartition, int] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                self._coordinator.raise_for(
                    partition.error_code, f"The committed offset of {tp} cannot be read."
                )
                if partition.committed_offset >= 0:
                    committed[tp] = partition.committed_offset
        return committed
