"""DescribeProducers (key 61), version 0: the producer state of partitions (KIP-664).

`kafka-transactions describe-producers` and `find-hanging` use it to find hanging transactions.
Only the leader of a partition answers.
"""

from functools import partial

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from ...clients.topic_partition import TopicPartition
from ...replication.topic_names import validate_topic_name
from ...security.access import READ, TOPIC, Access, access_of
from ...storage.log.unified_log import UnifiedLog
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list

_NO_TRANSACTION = -1


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Describe each partition's producers."""

    access = access_of(broker, context)

    def answer(topic: TopicRequest) -> TopicResponse:
        is_denied = access is not None and _is_denied(access, topic.name)
        describe = _denied_partition if is_denied else partial(_partition, broker, topic.name)
        return TopicResponse(
            name=topic.name, partitions=lazy_list(describe, topic.partition_indexes)
        )

    return DescribeProducersResponse(topics=lazy_list(answer, request.topics))


def _is_denied(access: Access, topic: str) -> bool:
    try:
        validate_topic_name(topic)
    except KafkaError:
        # Kafka checks the name first, and says what is wrong with it.
        return False
    return not access.allows(READ, TOPIC, topic)


def _denied_partition(index: int) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="Topic authorization failed.",
    )


def _partition(broker: BrokerContext, topic: str, index: int) -> PartitionResponse:
    try:
        validate_topic_name(topic)
        log = broker.replica_manager.partition(TopicPartition(topic, index)).leader_log()
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code)
    return PartitionResponse(
        partition_index=index, error_code=ErrorCode.NONE, active_producers=_producers(log)
    )


def _producers(log: UnifiedLog) -> list[ProducerState]:
    states: list[ProducerState] = []
    for producer_id, entry in log.producers.entries.items():
        started = entry.current_txn_first_offset
        states.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=_NO_TRANSACTION if started is None else started,
            )
        )
    return states
