"""InitProducerId (key 22), versions 0-5: a producer id and an epoch for a producer.

An idempotent producer (no transactional id) gets a new id with epoch 0 every time, even if it names
its previous id. A transactional id keeps its producer id, with the next epoch each time; a
transaction that is still open is aborted first, and the client must retry.

v2: flexible
v3: the producer may send its current id and epoch (KIP-360)
v4: a fenced producer gets PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH
"""

from collections.abc import Coroutine
from functools import partial

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ...coordinator.transaction.producer_ids import ProducerIds
from ...coordinator.transaction.transaction_coordinator import ProducerIdentity
from ...coordinator.transaction.transaction_shard import Initialization
from ...security.access import IDEMPOTENT_WRITE, TOPIC, TRANSACTIONAL_ID, WRITE, Access, access_of
from ..request.context import BrokerContext, Deferred, RequestContext
from ..request.producer_identity import error_for_version, identity_of

_NONE = -1
_FIRST_KNOWING_PRODUCER_FENCED = 4

_Response = (
    InitProducerIdResponse
    | Deferred[ProducerIdentity]
    | Coroutine[object, object, InitProducerIdResponse]
)


def handle(
    broker: BrokerContext, context: RequestContext, request: InitProducerIdRequest
) -> _Response:
    access = access_of(broker, context)
    denied = None if access is None else _denial(access, request.transactional_id)
    if denied is not None:
        return _error_response(denied)
    if (request.producer_id != _NONE) != (request.producer_epoch != _NONE):
        return _error_response(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _transactional(broker, context.api_version, request, request.transactional_id)
    producer_id = broker.producer_ids.next_if_there()
    if producer_id is None:
        return _later(broker.producer_ids)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _denial(access: Access, transactional_id: str | None) -> ErrorCode | None:
    """Why the client gets no producer id, if so. A client with write access may be idempotent."""
    if transactional_id is not None:
        if access.allows(WRITE, TRANSACTIONAL_ID, transactional_id):
            return None
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if access.allows_cluster(IDEMPOTENT_WRITE, audited=False) or access.allows_any(WRITE, TOPIC):
        return None
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def _later(producer_ids: ProducerIds) -> InitProducerIdResponse:
    try:
        producer_id = await producer_ids.next_id()
    except KafkaError:
        # The failure of the controller is temporary; clients retry on this code.
        return _error_response(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _transactional(
    broker: BrokerContext, version: int, request: InitProducerIdRequest, transactional_id: str
) -> _Response:
    identity = (request.producer_id, request.producer_epoch)
    initialization = Initialization(
        transactional_id,
        request.transaction_timeout_ms,
        None if request.producer_id == _NONE else identity,
    )
    attempt = partial(broker.transaction_coordinator.initialize, initialization)
    answer = identity_of(broker.producer_ids, attempt)
    if isinstance(answer, ProducerIdentity):
        return _response(version, answer)
    return Deferred(answer, partial(_response, version))


def _response(version: int, identity: ProducerIdentity) -> InitProducerIdResponse:
    error, producer_id, producer_epoch = identity
    error = error_for_version(error, version, _FIRST_KNOWING_PRODUCER_FENCED)
    return InitProducerIdResponse(
        error_code=error, producer_id=producer_id, producer_epoch=producer_epoch
    )


def _error_response(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE)
