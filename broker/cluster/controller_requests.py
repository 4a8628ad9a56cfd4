"""What a broker needs from the active controller for itself: producer ids and directories.

Each class stands where a process that is the whole cluster has its own controller.
"""

from collections.abc import Callable, Collection, Mapping

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.network.refusal import raise_for, refusal
from ...clients.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ...clients.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from ...clients.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ...clients.topic_partition import TopicIdPartition
from .controller_channel import ControllerChannel

ALLOCATION_TIMEOUT_MS = 10_000
"""A client that waits longer for a producer id retries by itself."""
ASSIGNMENT_TIMEOUT_MS = 30_000

_NOT_HERE_ANY_MORE = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""A replica whose partition was deleted or moved away has no directory to report."""


class ProducerIdBlocks:
    """Blocks of producer ids from the active controller (`RPCProducerIdManager`).

    `broker_epoch` returns the epoch of the broker's registration, which may change.
    """

    def __init__(
        self, channel: ControllerChannel, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    async def allocate(self, count: int) -> int:
        """The first of `count` new producer ids.

        Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS), upon which clients try again.
        """
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch()
        )
        try:
            response = await self._channel.request(
                request, AllocateProducerIdsResponse, ALLOCATION_TIMEOUT_MS
            )
            raise_for(response.error_code, "The controller allocated no producer ids.")
        except KafkaError as error:
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"No producer ids could be allocated: {error}",
            ) from error
        if response.producer_id_len < count:
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"The controller allocated {response.producer_id_len} producer ids, not {count}.",
            )
        return response.producer_id_start


class DirectoryRequests:
    """Reports the directories of replicas to the active controller (`AssignmentsManager`).

    `report_offline` is that of the broker's lifecycle: failures travel with heartbeats.
    """

    def __init__(
        self,
        channel: ControllerChannel,
        broker_id: int,
        broker_epoch: Callable[[], int],
        report_offline: Callable[[Collection[Uuid]], None],
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._report_offline = report_offline

    async def assign(self, directories: Mapping[TopicIdPartition, Uuid]) -> None:
        """Report the directories of replicas. Raises KafkaError, upon which it is tried again."""
        response = await self._channel.request(
            AssignReplicasToDirsRequest(
                broker_id=self._broker_id,
                broker_epoch=self._broker_epoch(),
                directories=_by_directory(directories),
            ),
            AssignReplicasToDirsResponse,
            ASSIGNMENT_TIMEOUT_MS,
        )
        raise_for(response.error_code, "The controller did not record the directories.")
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    if partition.error_code not in _NOT_HERE_ANY_MORE:
                        raise refusal(
                            partition.error_code,
                            "The controller did not record the directory of partition"
                            f" {partition.partition_index}.",
                        )

    async def fail(self, directories: Collection[Uuid]) -> None:
        """Report directories that have failed, with the next heartbeats."""
        self._report_offline(directories)


def _by_directory(directories: Mapping[TopicIdPartition, Uuid]) -> list[DirectoryData]:
    nested: dict[Uuid, dict[Uuid, list[PartitionData]]] = {}
    for replica, directory in directories.items():
        partitions = nested.setdefault(directory, {}).setdefault(replica.topic_id, [])
        partitions.append(PartitionData(partition_index=replica.partition))
    return [
        DirectoryData(
            id=directory,
            topics=[
                TopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )
        for directory, topics in nested.items()
    ]
