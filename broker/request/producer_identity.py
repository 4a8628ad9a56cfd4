"""The producer id and epoch that InitProducerId and EndTxn return.

Both requests may have to wait for a new producer id, and both may come from clients that do not
know the error PRODUCER_FENCED.
"""

import asyncio
from collections.abc import Callable, Coroutine

from ...clients.errors import ErrorCode, KafkaError
from ...coordinator.result_or_future import ResultOrFuture
from ...coordinator.transaction.producer_ids import ProducerIds
from ...coordinator.transaction.transaction_coordinator import ProducerIdentity
from ...coordinator.transaction.transaction_shard import TakeProducerId

IdentityCall = Callable[[TakeProducerId], ResultOrFuture[ProducerIdentity] | None]
"""Calls the coordinator; returns None if it needs a producer id and the block has none left."""


def identity_of(
    producer_ids: ProducerIds, attempt: IdentityCall
) -> (
    ProducerIdentity
    | asyncio.Future[ProducerIdentity]
    | Coroutine[object, object, ProducerIdentity]
):
    """The coordinator's answer; the attempt is repeated if it needs a new producer id."""
    answer = attempt(producer_ids.next_if_there)
    return _with_new_id(producer_ids, attempt) if answer is None else answer


async def _with_new_id(producer_ids: ProducerIds, attempt: IdentityCall) -> ProducerIdentity:
    try:
        producer_id = await producer_ids.next_id()
    except KafkaError:
        # The failure of the controller is temporary; clients retry on this code.
        return ProducerIdentity(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answer = attempt(lambda: producer_id)
    assert answer is not None, "The attempt has a producer id."
    return await answer if isinstance(answer, asyncio.Future) else answer


def error_for_version(error: ErrorCode, version: int, first_knowing: int) -> ErrorCode:
    """PRODUCER_FENCED, or INVALID_PRODUCER_EPOCH for versions before `first_knowing`."""
    is_unknown = error is ErrorCode.PRODUCER_FENCED and version < first_knowing
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error
