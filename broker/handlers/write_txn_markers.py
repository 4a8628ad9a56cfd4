"""WriteTxnMarkers (key 27), versions 1-2: ends transactions in partitions that this broker leads.

Sent by coordinators on other brokers, and by administrators to end a hanging transaction (KIP-664).
Writing a marker twice does no harm.

v2: the version of the transaction protocol; markers of the previous transaction are refused
    (KIP-1228)
"""

import asyncio
from collections.abc import Coroutine, Sequence

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...clients.topic_partition import TopicPartition
from ...coordinator.result_or_future import ResultOrFuture
from ...coordinator.transaction.transaction_markers import Marker, MarkerErrors
from ..request.context import BrokerContext, RequestContext

_GROUP_COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What the coordinator of a transaction cannot distinguish from its own errors: it gets an error of
the partition, after which it repeats the marker (Kafka's
`KafkaApis.handleWriteTxnMarkersRequest`)."""


def handle(
    broker: BrokerContext, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Coroutine[object, object, WriteTxnMarkersResponse]:
    answers = [_write(broker, marker) for marker in request.markers]
    settled = [answer for answer in answers if not isinstance(answer, asyncio.Future)]
    if len(settled) < len(answers):
        return _later(request, answers)
    return _response(request, settled)


async def _later(
    request: WriteTxnMarkersRequest, answers: Sequence[ResultOrFuture[MarkerErrors]]
) -> WriteTxnMarkersResponse:
    settled = [await answer if isinstance(answer, asyncio.Future) else answer for answer in answers]
    return _response(request, settled)


def _write(broker: BrokerContext, request: WritableTxnMarker) -> ResultOrFuture[MarkerErrors]:
    marker = Marker(
        request.producer_id,
        request.producer_epoch,
        request.coordinator_epoch,
        request.transaction_result,
        request.transaction_version,
    )
    partitions = [
        TopicPartition(topic.name, number)
        for topic in request.topics
        for number in topic.partition_indexes
    ]
    return broker.transactions.markers.write(marker, partitions)


def _response(
    request: WriteTxnMarkersRequest, errors: Sequence[MarkerErrors]
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=number,
                                error_code=_of_the_partition(
                                    error_of[TopicPartition(topic.name, number)]
                                ),
                            )
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker, error_of in zip(request.markers, errors, strict=True)
        ]
    )


def _of_the_partition(error: ErrorCode) -> ErrorCode:
    is_other = error in _GROUP_COORDINATOR_ERRORS
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_other else error
