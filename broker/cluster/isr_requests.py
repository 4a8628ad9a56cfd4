"""Sends a leader's proposals of ISRs to the active controller (KIP-497, KIP-903)."""

from collections.abc import Callable, Mapping

from ...clients.errors import ErrorCode
from ...clients.network.refusal import raise_for
from ...clients.protocol.messages.alter_partition import AlterPartitionResponse
from ...clients.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ...clients.topic_partition import TopicIdPartition
from ...replication.leader.isr_sender import Answers
from ...replication.partition.isr import IsrAnswer, IsrProposal
from .controller_channel import ControllerChannel

_TIMEOUT_MS = 30_000
_RECOVERED = 0
"""A leader proposes an ISR only once it has recovered (KIP-704)."""


class AlterPartitionRequests:
    """`IsrRequests` over the channel to the active controller."""

    def __init__(
        self, channel: ControllerChannel, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    async def alter(self, proposals: Mapping[TopicIdPartition, IsrProposal]) -> Answers:
        """See `IsrRequests`."""
        topics: dict[bytes, TopicData] = {}
        for replica, proposal in proposals.items():
            topic = topics.setdefault(replica.topic_id, TopicData(topic_id=replica.topic_id))
            topic.partitions.append(_partition(replica.partition, proposal))
        response = await self._channel.request(
            AlterPartitionRequest(
                broker_id=self._broker_id,
                broker_epoch=self._broker_epoch(),
                topics=list(topics.values()),
            ),
            AlterPartitionResponse,
            _TIMEOUT_MS,
        )
        raise_for(response.error_code, "The controller decided on no ISR.")
        names = {(each.topic_id, each.partition): each for each in proposals}
        answers: dict[TopicIdPartition, IsrAnswer | ErrorCode] = {}
        for topic_answer in response.topics:
            for partition in topic_answer.partitions:
                name = names.get((topic_answer.topic_id, partition.partition_index))
                if name is not None:
                    answers[name] = (
                        ErrorCode(partition.error_code)
                        if partition.error_code
                        else IsrAnswer(
                            partition.leader_epoch, partition.partition_epoch, tuple(partition.isr)
                        )
                    )
        return answers


def _partition(number: int, proposal: IsrProposal) -> PartitionData:
    return PartitionData(
        partition_index=number,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=replica.broker_id, broker_epoch=replica.broker_epoch)
            for replica in proposal.isr
        ],
        leader_recovery_state=_RECOVERED,
        partition_epoch=proposal.partition_epoch,
    )
