"""InitProducerId (key 22): an id and an epoch for a producer.

Versions 0-5. An idempotent producer (no transactional id) gets a fresh id with epoch 0 every time,
also when it names the id it had (KIP-360, v3). Transactions are not served yet: a transactional id
is answered UNSUPPORTED_VERSION, which no client retries, so the application hears of it at once.
"""

from collections.abc import Coroutine

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ..context import BrokerContext, RequestContext
from ..coordinator.producer_ids import ProducerIds

_NONE = -1


def handle(
    broker: BrokerContext, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Coroutine[object, object, InitProducerIdResponse]:
    error = _error(request)
    if error:
        return InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE)
    producer_id = broker.producer_ids.next_if_there()
    if producer_id is None:
        return _later(broker.producer_ids)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _later(producer_ids: ProducerIds) -> InitProducerIdResponse:
    try:
        producer_id = await producer_ids.next_id()
    except KafkaError:
        # Whatever keeps the controller from answering passes; clients retry this code.
        return InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            producer_id=_NONE,
            producer_epoch=_NONE,
        )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _error(request: InitProducerIdRequest) -> ErrorCode:
    names_id = request.producer_id != _NONE
    names_epoch = request.producer_epoch != _NONE
    if request.transactional_id == "" or names_id != names_epoch:
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE
