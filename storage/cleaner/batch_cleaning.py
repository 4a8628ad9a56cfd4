"""Compacts a single batch (Kafka's `RecordFilter` and `filterTo`).

A record is kept if its offset is above those that the offset map covers, or if it is the last one
with its key; records without a key are removed from the covered part. Offsets, order, producer ids
and sequence numbers never change; a batch that loses records covers the same offsets as before
(CL2).

A tombstone is kept until the batch's delete horizon has passed. The horizon is the time of the
first cleaning that saw the tombstone plus `delete.retention.ms`, and that cleaning writes it into
the batch (KIP-534, CL3). A transaction marker gets its horizon once no batch of its transaction is
left (CL4).

A batch that loses all its records is removed, unless its header is needed. The last batch of each
active producer is kept to detect duplicates, and the last batch of the cleaned range is kept so
that readers can move past the range (CL5).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...clients.record.batch import Record, RecordBatch
from ...clients.record.builder import rebuild_batch
from ..producer.producer_entry import ProducerEntry
from .cleaned_transactions import CleanedTransactions
from .offset_map import OffsetMap


class LastOfProducer(NamedTuple):
    """Which batch of an active producer is kept: its last data batch, or a marker of its epoch."""

    last_data_offset: int | None
    epoch: int


def last_of_producers(entries: Mapping[int, ProducerEntry]) -> dict[int, LastOfProducer]:
    """The last data offset and epoch by producer id, from the current producer state."""
    return {
        producer_id: LastOfProducer(
            entry.last_offset if entry.batches else None, entry.producer_epoch
        )
        for producer_id, entry in entries.items()
    }


@dataclass(frozen=True, slots=True)
class CleaningRules:
    """The inputs for the decisions of one cleaning; `end_offset` ends the cleanable part."""

    keys: OffsetMap
    transactions: CleanedTransactions
    producers: Mapping[int, LastOfProducer]
    end_offset: int
    now_ms: int
    delete_retention_ms: int


def clean_batch(batch: RecordBatch, rules: CleaningRules) -> memoryview | bytearray | None:
    """Clean a batch; returns it unchanged, smaller or empty, or None if it is removed."""
    may_discard = rules.transactions.may_discard(batch)
    horizon = batch.delete_horizon_ms
    discards = may_discard
    if batch.is_control:
        discards = may_discard and horizon is not None and horizon <= rules.now_ms
    kept = [] if discards else _kept_records(batch, rules)
    if not kept:
        return _empty(batch) if _must_stay(batch, rules) else None
    is_due = (may_discard and batch.is_control) or any(record.value is None for record in kept)
    sets_horizon = is_due and horizon is None
    if len(kept) == batch.record_count and not sets_horizon:
        return batch.view
    if sets_horizon:
        horizon = rules.now_ms + rules.delete_retention_ms
    return rebuild_batch(batch, kept, delete_horizon_ms=horizon)


def _must_stay(batch: RecordBatch, rules: CleaningRules) -> bool:
    if batch.next_offset == rules.end_offset:
        return True
    last = rules.producers.get(batch.producer_id) if batch.has_producer_id else None
    if last is None:
        return False
    if last.last_data_offset is None:
        return batch.is_control and batch.producer_epoch == last.epoch
    return batch.last_offset == last.last_data_offset


def _empty(batch: RecordBatch) -> memoryview | bytearray:
    if not batch.record_count:
        return batch.view
    return rebuild_batch(batch, [], delete_horizon_ms=None)


def _kept_records(batch: RecordBatch, rules: CleaningRules) -> list[Record]:
    if batch.is_control:
        return list(batch.records())
    horizon = batch.delete_horizon_ms
    keeps_tombstones = horizon is None or rules.now_ms < horizon
    seen, last_of = rules.keys.latest_offset, rules.keys.get
    return [
        record
        for record in batch.records()
        if record.offset > seen
        or (
            record.key is not None
            and record.offset >= last_of(record.key)
            and (record.value is not None or keeps_tombstones)
        )
    ]
