"""Decides on AssignReplicasToDirs: a broker says in which directories its replicas are (KIP-858).

A replica that is assigned to a directory that is not online leaves ISR and leadership in the same
record. See `ReplicationControlManager.handleAssignReplicasToDirs`.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from ....clients.errors import ErrorCode
from ....clients.kafka_uuid import Uuid
from ....clients.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ....clients.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData as RequestedDirectory,
    TopicData as RequestedTopic,
)
from ....storage.config import LogConfig
from ...metadata.cluster_image import BrokerImage, ClusterImage
from ..controller_config import Decision
from ..leadership.leader_and_isr import PartitionChanges
from ..leadership.partition_change import PartitionTarget
from ..partition_control import is_online
from .heartbeat_decision import registered_broker
from .sessions import BrokerIdAndEpoch

if TYPE_CHECKING:
    from ....clients.protocol.schema import Message


def decide_assignments(
    image: ClusterImage, request: AssignReplicasToDirsRequest, defaults: LogConfig
) -> Decision[AssignReplicasToDirsResponse]:
    """Decide on each replica of a request.

    Raises KafkaError(STALE_BROKER_EPOCH) if the sender has another epoch.
    """
    broker = registered_broker(image, BrokerIdAndEpoch(request.broker_id, request.broker_epoch))
    assignments = _Assignments(image, broker, defaults)
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        topics = [
            TopicData(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=partition.partition_index,
                        error_code=assignments.assign(
                            topic.topic_id, partition.partition_index, directory.id
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in directory.topics
        ]
        response.directories.append(DirectoryData(id=directory.id, topics=topics))
    return Decision(assignments.records, response)


def parts_of(request: AssignReplicasToDirsRequest, size: int) -> list[AssignReplicasToDirsRequest]:
    """The same request as several, each for `size` replicas at most."""
    requested = [
        (directory.id, topic.topic_id, partition)
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    if len(requested) <= size:
        return [request]
    parts: list[AssignReplicasToDirsRequest] = []
    for first in range(0, len(requested), size):
        part = AssignReplicasToDirsRequest(
            broker_id=request.broker_id, broker_epoch=request.broker_epoch
        )
        for directory_id, in_directory in groupby(requested[first : first + size], itemgetter(0)):
            topics = [
                RequestedTopic(topic_id=topic_id, partitions=[each for _, _, each in some])
                for topic_id, some in groupby(in_directory, itemgetter(1))
            ]
            part.directories.append(RequestedDirectory(id=directory_id, topics=topics))
        parts.append(part)
    return parts


def joined(answers: Sequence[AssignReplicasToDirsResponse]) -> AssignReplicasToDirsResponse:
    """The answer to a request whose parts have these answers."""
    response = AssignReplicasToDirsResponse()
    for directory in (each for answer in answers for each in answer.directories):
        last = response.directories[-1] if response.directories else None
        if last is None or last.id != directory.id:
            response.directories.append(directory)
        elif last.topics and last.topics[-1].topic_id == directory.topics[0].topic_id:
            last.topics[-1].partitions += directory.topics[0].partitions
            last.topics += directory.topics[1:]
        else:
            last.topics += directory.topics
    return response


class _Assignments:
    """The records of one request."""

    def __init__(self, image: ClusterImage, broker: BrokerImage, defaults: LogConfig) -> None:
        self._image = image
        self._broker = broker
        self._defaults = defaults
        self._changes = PartitionChanges(image, defaults)
        self._lost = PartitionChanges(image, defaults, leaving=broker.broker_id)
        self._decided: set[tuple[Uuid, int]] = set()
        self.records: list[Message] = []

    def assign(self, topic_id: Uuid, number: int, directory: Uuid) -> ErrorCode:
        """Add the record of one replica, if its directory changes."""
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = topic.partitions.get(number)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker_id = self._broker.broker_id
        if broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if (topic_id, number) in self._decided:
            # The image does not have the first change: this one would undo a part of it.
            return ErrorCode.INVALID_REQUEST
        self._decided.add((topic_id, number))
        directories = {broker_id: directory}
        if is_online(directory, self._broker.directories):
            record = self._changes.change(topic, number, PartitionTarget(directories=directories))
        else:
            isr = [replica for replica in partition.isr if replica != broker_id]
            target = PartitionTarget(isr=isr, directories=directories)
            record = self._lost.change(topic, number, target)
        self.records += [] if record is None else [record]
        return ErrorCode.NONE
