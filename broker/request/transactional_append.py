"""The appends of a Produce request that names a transactional id."""

import asyncio
from collections.abc import Coroutine

from ...clients.errors import KafkaError
from ...clients.protocol.messages.produce import ProduceRequest
from ...clients.record.batch import RecordBatch
from ...replication.partition.append_data import AppendEntry, AppendRequest
from .context import BrokerContext
from .transaction_membership import Refusals, Support, refusals


def append_in_transaction(
    broker: BrokerContext, request: ProduceRequest, entries: list[AppendEntry], support: Support
) -> asyncio.Future[list[AppendEntry]] | Coroutine[object, object, list[AppendEntry]] | None:
    """Append the allowed entries and refuse the rest; returns the work to await, if any."""
    answer = _refusals_of(broker, request, entries, support)
    if answer is None:
        return None
    if isinstance(answer, Coroutine):
        for entry in entries:
            # The request's buffer is reused before the append.
            entry.records = memoryview(bytearray(entry.records))
        return _append_later(broker, request, entries, answer)
    outcome = _append(broker, request, entries, answer)
    return outcome if isinstance(outcome, asyncio.Future) else None


async def join_at_once(
    broker: BrokerContext, request: ProduceRequest, entries: list[AppendEntry], support: Support
) -> None:
    """Add all partitions of a request to its transaction with one write, or refuse them.

    Called before the request is appended in parts. Each part checks again, because the transaction
    may end between two parts; usually the partitions are still in it.
    """
    answer = _refusals_of(broker, request, entries, support)
    if answer is not None:
        refusals_by_partition = await answer if isinstance(answer, Coroutine) else answer
        _allowed_entries(entries, refusals_by_partition)


def _refusals_of(
    broker: BrokerContext, request: ProduceRequest, entries: list[AppendEntry], support: Support
) -> Refusals | Coroutine[object, object, Refusals] | None:
    """The partitions that must not be appended to. On an error, refuses all, and returns None."""
    transactional_id = request.transactional_id
    assert transactional_id is not None, "The request is transactional."
    transactional = [each for each in entries if RecordBatch(each.records).is_transactional]
    try:
        return refusals(broker, transactional_id, transactional, support)
    except KafkaError as error:
        for entry in entries:
            entry.refuse(error.code, error.message)
        return None


async def _append_later(
    broker: BrokerContext,
    request: ProduceRequest,
    entries: list[AppendEntry],
    answer: Coroutine[object, object, Refusals],
) -> list[AppendEntry]:
    # No pause between the answer, which looks at the guards last, and the append.
    outcome = _append(broker, request, entries, await answer)
    return await outcome if isinstance(outcome, asyncio.Future) else outcome


def _append(
    broker: BrokerContext,
    request: ProduceRequest,
    entries: list[AppendEntry],
    refusals_by_partition: Refusals,
) -> list[AppendEntry] | asyncio.Future[list[AppendEntry]]:
    allowed = _allowed_entries(entries, refusals_by_partition)
    if not allowed:
        return []
    appending = AppendRequest(allowed, request.acks, request.timeout_ms)
    return broker.replica_manager.append_records(appending)


def _allowed_entries(
    entries: list[AppendEntry], refusals_by_partition: Refusals
) -> list[AppendEntry]:
    """The entries that may be appended; the others are refused."""
    allowed: list[AppendEntry] = []
    for entry in entries:
        refusal = refusals_by_partition.get(entry.topic_partition)
        if refusal is None:
            allowed.append(entry)
        else:
            entry.refuse(refusal.code, refusal.message)
            entry.log_start_offset = refusal.log_start_offset
    return allowed
