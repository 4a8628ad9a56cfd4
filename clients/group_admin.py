"""Administers groups: lists and describes them, reads, sets and deletes what they committed.

Stands beside `admin.py` and uses its connections. Groups of either protocol are described in the
same form: those of KIP-848 by ConsumerGroupDescribe, all others by DescribeGroups.
"""

from collections.abc import Mapping
from typing import NamedTuple

from .admin import Admin
from .consumer.committed_offsets import CommittedOffsets
from .consumer.group import PROTOCOL_TYPE, partitions_of
from .errors import ErrorCode, KafkaError
from .network.coordinator_lookup import GroupCoordinatorClient
from .network.refusal import raise_for
from .protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from .protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from .protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from .protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from .protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from .runtime.environment import SystemEnvironment
from .topic_partition import TopicPartition

_FETCH_ONE_GROUP_VERSION_MAX = 7
_DEAD = "Dead"
_NOT_OF_KIP_848 = frozenset((ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION))


class GroupMemberDescription(NamedTuple):
    """A member and the partitions that it has now."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]


class GroupDescription(NamedTuple):
    """A group; its type is `classic` or `consumer`, its protocol the name of its assignor."""

    group_id: str
    state: str
    type: str
    protocol: str
    members: list[GroupMemberDescription]


class GroupAdmin:
    """The groups of the cluster that `admin` is connected to. All methods raise `KafkaError`."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._coordinators: dict[str, GroupCoordinatorClient] = {}

    async def list_groups(self) -> list[ListedGroup]:
        """All groups, in the order of their ids."""
        cluster = await self._admin.describe_cluster()
        self._admin.network.update_nodes(cluster.brokers)
        groups: dict[str, ListedGroup] = {}
        for node_id in cluster.brokers:
            response = await self._admin.network.request(
                node_id, ListGroupsRequest(), ListGroupsResponse
            )
            raise_for(response.error_code, "The groups cannot be listed.")
            groups.update({group.group_id: group for group in response.groups})
        return [groups[name] for name in sorted(groups)]

    async def describe(self, group_id: str) -> GroupDescription:
        """A group and its members. Raises GROUP_ID_NOT_FOUND if there is no such group."""
        coordinator = self._coordinator(group_id)

        async def attempt() -> GroupDescription:
            try:
                return await self._describe_consumer(coordinator, group_id)
            except KafkaError as error:
                if error.code not in _NOT_OF_KIP_848:
                    raise
            return await self._describe_classic(coordinator, group_id)

        return await coordinator.retry(attempt, self._admin.timeout_ms)

    async def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Every committed offset of a group."""
        coordinator = self._coordinator(group_id)
        request = OffsetFetchRequest(group_id=group_id, topics=None)

        async def attempt() -> dict[TopicPartition, int]:
            response = await coordinator.ask(
                request, OffsetFetchResponse, version_max=_FETCH_ONE_GROUP_VERSION_MAX
            )
            coordinator.raise_for(response.error_code, "Committed offsets cannot be read.")
            return {
                TopicPartition(topic.name, partition.partition_index): partition.committed_offset
                for topic in response.topics
                for partition in topic.partitions
                if partition.committed_offset >= 0
            }

        return await coordinator.retry(attempt, self._admin.timeout_ms)

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the committed offsets of a group that has no members."""
        offsets_of_group = CommittedOffsets(
            group_id, self._coordinator(group_id), self._admin.timeout_ms
        )
        await offsets_of_group.commit(offsets)

    async def delete(self, group_id: str) -> None:
        """Delete a group and its offsets. Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        coordinator = self._coordinator(group_id)

        async def attempt() -> None:
            response = await coordinator.ask(
                DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse
            )
            for result in response.results:
                coordinator.raise_for(
                    result.error_code, _refused_deletion(result.error_code, group_id)
                )

        await coordinator.retry(attempt, self._admin.timeout_ms)

    def _coordinator(self, group_id: str) -> GroupCoordinatorClient:
        coordinator = self._coordinators.get(group_id)
        if coordinator is None:
            coordinator = self._coordinators[group_id] = GroupCoordinatorClient(
                group_id, self._admin.network, SystemEnvironment()
            )
        return coordinator

    async def _describe_consumer(
        self, coordinator: GroupCoordinatorClient, group_id: str
    ) -> GroupDescription:
        response = await coordinator.ask(
            ConsumerGroupDescribeRequest(group_ids=[group_id]), ConsumerGroupDescribeResponse
        )
        (group,) = response.groups
        coordinator.raise_for(group.error_code, group.error_message or _absent(group_id))
        return GroupDescription(
            group_id,
            group.group_state,
            "consumer",
            group.assignor_name,
            [_member_of_consumer(member) for member in group.members],
        )

    async def _describe_classic(
        self, coordinator: GroupCoordinatorClient, group_id: str
    ) -> GroupDescription:
        response = await coordinator.ask(
            DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse
        )
        (group,) = response.groups
        coordinator.raise_for(group.error_code, _absent(group_id))
        if group.group_state == _DEAD:
            # Brokers before version 6 of the API answer so where there is no such group.
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, _absent(group_id))
        has_partitions = group.protocol_type == PROTOCOL_TYPE
        return GroupDescription(
            group_id,
            group.group_state,
            "classic",
            group.protocol_data,
            [
                GroupMemberDescription(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    partitions_of(member.member_assignment) if has_partitions else [],
                )
                for member in group.members
            ],
        )


def _member_of_consumer(member: Member) -> GroupMemberDescription:
    return GroupMemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        [
            TopicPartition(topic.topic_name, partition)
            for topic in member.assignment.topic_partitions
            for partition in topic.partitions
        ],
    )


def _absent(group_id: str) -> str:
    return f"There is no group {group_id}."


def _refused_deletion(error_code: int, group_id: str) -> str:
    if error_code == ErrorCode.NON_EMPTY_GROUP:
        return f"The group {group_id} has members: stop them first."
    if error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return _absent(group_id)
    return f"The group {group_id} was not deleted."
