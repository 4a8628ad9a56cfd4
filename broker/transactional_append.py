"""The appends of a Produce request that names a transactional id."""

import asyncio
from collections.abc import Coroutine

from ..clients.errors import KafkaError
from ..clients.protocol.messages.produce import ProduceRequest
from ..clients.record.batch import RecordBatch
from ..replication.append_data import AppendEntry, AppendRequest, PartitionAppendResult
from .context import BrokerContext
from .transaction_membership import Refusals, Support, refusals

Results = list[PartitionAppendResult]
Refused = dict[int, PartitionAppendResult]
"""By place in the request."""


def append_in_transaction(
    broker: BrokerContext,
    request: ProduceRequest,
    parts: tuple[Refused, list[AppendEntry]],
    support: Support,
) -> Results | Coroutine[object, object, Results]:
    """One result for each partition of the request, in its order; `parts` are what was refused
    before, and what is to be appended."""
    refused, entries = parts
    transactional_id = request.transactional_id
    assert transactional_id is not None, "Others do not come here."
    transactional = [each for each in entries if RecordBatch(each.records).is_transactional]
    try:
        answer = refusals(broker, transactional_id, transactional, support)
    except KafkaError as error:
        mistaken = [
            PartitionAppendResult(each.topic_partition, error.code, error_message=error.message)
            for each in entries
        ]
        return _merged(refused, mistaken)
    if isinstance(answer, asyncio.Future):
        # The request's buffer is gone by then.
        kept = [each._replace(records=memoryview(bytearray(each.records))) for each in entries]
        return _append_later(broker, request, (refused, kept), answer)
    outcome = _append(broker, request, entries, answer)
    if isinstance(outcome, asyncio.Future):
        return _merge_later(refused, entries, answer, outcome)
    return _merged(refused, _with_refusals(entries, answer, outcome))


async def _append_later(
    broker: BrokerContext,
    request: ProduceRequest,
    parts: tuple[Refused, list[AppendEntry]],
    answer: asyncio.Future[Refusals],
) -> Results:
    refused, entries = parts
    found = await answer
    outcome = _append(broker, request, entries, found)
    results = await outcome if isinstance(outcome, asyncio.Future) else outcome
    return _merged(refused, _with_refusals(entries, found, results))


async def _merge_later(
    refused: Refused,
    entries: list[AppendEntry],
    found: Refusals,
    outcome: asyncio.Future[Results],
) -> Results:
    return _merged(refused, _with_refusals(entries, found, await outcome))


def _append(
    broker: BrokerContext, request: ProduceRequest, entries: list[AppendEntry], found: Refusals
) -> Results | asyncio.Future[Results]:
    allowed = [each for each in entries if each.topic_partition not in found]
    if not allowed:
        return []
    appending = AppendRequest(allowed, request.acks, request.timeout_ms)
    return broker.replica_manager.append_records(appending)


def _with_refusals(entries: list[AppendEntry], found: Refusals, appended: Results) -> Results:
    following = iter(appended)
    results: Results = []
    for entry in entries:
        refusal = found.get(entry.topic_partition)
        if refusal is None:
            results.append(next(following))
        else:
            results.append(
                PartitionAppendResult(
                    entry.topic_partition,
                    refusal.code,
                    log_start_offset=refusal.log_start_offset,
                    error_message=refusal.message,
                )
            )
    return results


def _merged(refused: Refused, results: Results) -> Results:
    """What was refused before, put where it stood among the rest."""
    for index, result in refused.items():
        results.insert(index, result)
    return results
