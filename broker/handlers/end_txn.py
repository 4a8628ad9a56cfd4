"""EndTxn (key 26), versions 0-5: commit or abort.

Answered when the decision is in the log; the markers are on their way then. Version 5 tells the
producer the id and epoch of its next transaction (KIP-890). Before 2 a fenced producer is told of
its epoch.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..context import BrokerContext, Later, RequestContext
from ..coordinator.transaction import ProducerIdentity
from ..coordinator.transaction_metadata import EPOCH_BUMP_VERSION
from ..coordinator.transaction_shard import Ending

_FIRST_KNOWING_PRODUCER_FENCED = 2
_FIRST_BUMPING_EPOCHS = 5


def handle(
    broker: BrokerContext, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Later[ProducerIdentity] | Coroutine[object, object, EndTxnResponse]:
    version = context.api_version
    ending = Ending(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_BUMP_VERSION if version >= _FIRST_BUMPING_EPOCHS else 0,
    )
    answer = broker.transaction_coordinator.end(ending, broker.producer_ids.next_if_there)
    if answer is None:
        return _with_new_producer_id(broker, version, ending)
    if isinstance(answer, asyncio.Future):
        return Later(answer, partial(_response, version))
    return _response(version, answer)


async def _with_new_producer_id(
    broker: BrokerContext, version: int, ending: Ending
) -> EndTxnResponse:
    try:
        producer_id = await broker.producer_ids.next_id()
    except KafkaError:
        # Whatever keeps the controller from answering passes; clients retry this code.
        return EndTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answer = broker.transaction_coordinator.end(ending, lambda: producer_id)
    assert answer is not None, "A producer id is there."
    return _response(version, await answer if isinstance(answer, asyncio.Future) else answer)


def _response(version: int, identity: ProducerIdentity) -> EndTxnResponse:
    error, producer_id, producer_epoch = identity
    if error is ErrorCode.PRODUCER_FENCED and version < _FIRST_KNOWING_PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=error, producer_id=producer_id, producer_epoch=producer_epoch)
