"""EndTxn (key 26), versions 0-5: commits or aborts a transaction.

The response is sent once the decision is in the log; the markers are written after that.

v2: a fenced producer gets PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH
v3: flexible
v5: returns the producer id and epoch of the next transaction (KIP-890)
"""

from functools import partial

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ...coordinator.transaction.transaction_coordinator import ProducerIdentity
from ...coordinator.transaction.transaction_metadata import EPOCH_BUMP_VERSION
from ...coordinator.transaction.transaction_shard import Ending
from ...security.access import TRANSACTIONAL_ID, WRITE, denies
from ..request.context import BrokerContext, Deferred, RequestContext
from ..request.producer_identity import error_for_version, identity_of

_FIRST_KNOWING_PRODUCER_FENCED = 2
_FIRST_BUMPING_EPOCHS = 5


def handle(
    broker: BrokerContext, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Deferred[ProducerIdentity]:
    if denies(broker, context, WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    version = context.api_version
    ending = Ending(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_BUMP_VERSION if version >= _FIRST_BUMPING_EPOCHS else 0,
    )
    attempt = partial(broker.transaction_coordinator.end, ending)
    answer = identity_of(broker.producer_ids, attempt)
    if isinstance(answer, ProducerIdentity):
        return _response(version, answer)
    return Deferred(answer, partial(_response, version))


def _response(version: int, identity: ProducerIdentity) -> EndTxnResponse:
    error, producer_id, producer_epoch = identity
    error = error_for_version(error, version, _FIRST_KNOWING_PRODUCER_FENCED)
    return EndTxnResponse(error_code=error, producer_id=producer_id, producer_epoch=producer_epoch)
