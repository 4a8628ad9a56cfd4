"""What the brokers of a local cluster say of it, and the changes that they are asked for.

Each question has a connection of its own, so that no state is left over from a process that has
died, and all are bounded in time.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from ...clients.errors import KafkaError
from ...clients.network.network import NetworkClient, NetworkConfig
from ...clients.network.refusal import raise_for
from ...clients.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ...clients.protocol.messages.describe_quorum import DescribeQuorumResponse
from ...clients.protocol.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from ...clients.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ...clients.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ...clients.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ...clients.protocol.schema import Message
from ...clients.runtime.environment import SystemEnvironment
from .replica_moves import Partition

R = TypeVar("R", bound=Message)

_METADATA_TOPIC = "__cluster_metadata"


class View(NamedTuple):
    """The cluster as one broker describes it."""

    brokers: frozenset[int]
    """Those that are registered and not fenced."""
    partitions: tuple[Partition, ...]

    @property
    def lagging(self) -> list[Partition]:
        """The partitions of which not every replica is in sync."""
        return [
            partition
            for partition in self.partitions
            if len(partition.isr) < len(partition.replicas)
        ]


class Quorum(NamedTuple):
    """The metadata quorum as its leader describes it."""

    leader_id: int
    behind: frozenset[int]
    """Voters that have not fetched all that is committed."""


async def _ask(address: str, request: Message, answer: type[R], timeout_ms: int) -> R:
    """Raises KafkaError."""
    config = NetworkConfig(
        client_id="tierlog-cluster",
        request_timeout_ms=timeout_ms,
        socket_connection_setup_timeout_ms=timeout_ms,
    )
    network = NetworkClient(address, SystemEnvironment(), config)
    try:
        return await network.request_any(request, answer)
    finally:
        await network.close()


async def view(address: str, timeout_ms: int) -> View:
    """The brokers and partitions, as the broker at `address` has them. Raises KafkaError."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = await _ask(address, request, MetadataResponse, timeout_ms)
    partitions = tuple(
        Partition(
            topic.name or "",
            partition.partition_index,
            partition.leader_id,
            tuple(partition.replica_nodes),
            frozenset(partition.isr_nodes),
        )
        for topic in answer.topics
        for partition in topic.partitions
    )
    return View(frozenset(broker.node_id for broker in answer.brokers), partitions)


async def quorum(address: str, timeout_ms: int) -> Quorum:
    """The quorum, through the broker at `address`. Raises KafkaError."""
    topic = TopicData(topic_name=_METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
    request = DescribeQuorumRequest(topics=[topic])
    answer = await _ask(address, request, DescribeQuorumResponse, timeout_ms)
    raise_for(answer.error_code, "The quorum was not described.")
    (described,) = (partition for one in answer.topics for partition in one.partitions)
    raise_for(described.error_code, "The quorum was not described.")
    # The leader itself knows its end; a voter that has never fetched has -1.
    behind = (
        voter.replica_id
        for voter in described.current_voters
        if voter.log_end_offset < described.high_watermark - 1
    )
    return Quorum(described.leader_id, frozenset(behind))


async def reassign(
    address: str, moves: Mapping[tuple[str, int], Sequence[int]], timeout_ms: int
) -> None:
    """Begin to move replicas. Raises KafkaError."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, partition), replicas in moves.items():
        each = ReassignablePartition(partition_index=partition, replicas=list(replicas))
        topics.setdefault(topic, []).append(each)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        topics=[
            ReassignableTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    answer = await _ask(address, request, AlterPartitionReassignmentsResponse, timeout_ms)
    raise_for(answer.error_code, answer.error_message or "")
    for moved in answer.responses:
        for result in moved.partitions:
            raise_for(result.error_code, result.error_message or moved.name)


async def ongoing_moves(address: str, timeout_ms: int) -> int:
    """How many partitions are being moved. Raises KafkaError."""
    request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=None)
    answer = await _ask(address, request, ListPartitionReassignmentsResponse, timeout_ms)
    raise_for(answer.error_code, answer.error_message or "")
    return sum(len(topic.partitions) for topic in answer.topics)


async def unregister(address: str, broker_id: int, timeout_ms: int) -> None:
    """Remove the registration of a broker that has stopped. Raises KafkaError."""
    request = UnregisterBrokerRequest(broker_id=broker_id)
    answer = await _ask(address, request, UnregisterBrokerResponse, timeout_ms)
    raise_for(answer.error_code, answer.error_message or "")


async def first_view(addresses: Sequence[str], timeout_ms: int) -> tuple[str, View] | None:
    """The view of the first broker that answers, with its address; None if none does."""
    for address in addresses:
        try:
            return address, await view(address, timeout_ms)
        except KafkaError:
            continue
    return None
