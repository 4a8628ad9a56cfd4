"""Finds the aborted transactions of a scan (KIP-98), for `isolation=read_committed`.

A broker lists them in each fetch response; here they come from the transaction indexes in the tier.
A transaction is listed in the index of the segment with its abort marker, which may be later than
the segments with its records. So indexes are read from the first segment of the scan on, until an
entry has a last stable offset at or beyond the end of the scan: transactions that end later began
at or after that offset. A scan ends before the transactions that are open at the end of the tier
(`stable_end.py`).

A lost segment behind the scan may have held the marker of a transaction inside it. Such a
transaction is listed nowhere, as one that was committed, so it is found by the producer snapshot of
the segment before the hole.
"""

from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING

from ...clients.record.batch import RecordBatch
from ...storage.segment.transaction_index import AbortedTxn
from ...tiering.remote_storage import IndexType
from ...tiering.store.manifest import Manifest
from ...tiering.tools.lineage_choice import TierLineage
from ...tiering.tools.tier_survey import DamagedPartError, TierReader, read_part
from .scan_options import ScanError
from .stable_end import open_transactions
from .tier_lineages import TierView

if TYPE_CHECKING:
    from ...storage.remote.remote_segment import RemoteLogSegmentId

_ENTRY = Struct(">hqqqq")


async def aborted_in(
    tier: TierReader, view: TierView, lineage: TierLineage, first: int, end: int
) -> list[AbortedTxn]:
    """The aborted transactions with records in [first, end). Raises ScanError."""
    transactions: list[AbortedTxn] = []
    # A segment of many leaders has a stretch of each, and one index.
    contents: dict[RemoteLogSegmentId, bytes] = {}
    for stretch in lineage.stretches:
        if stretch.end_offset <= first or stretch.segment.txn_index_empty:
            continue
        manifest = view.manifest_of(stretch.segment)
        if IndexType.TRANSACTION.value not in manifest.parts:
            continue
        segment_id = stretch.segment.segment_id
        if segment_id not in contents:
            contents = {segment_id: await _index_of(tier, manifest)}
        content = contents[segment_id]
        for _, *fields in _ENTRY.iter_unpack(content[: len(content) - len(content) % _ENTRY.size]):
            txn = AbortedTxn(*fields)
            if not stretch.first_offset <= txn.last_offset < stretch.end_offset:
                # The marker is not in this stretch: it was truncated, or another segment has it.
                continue
            if txn.last_offset >= first and txn.first_offset < end:
                transactions.append(txn)
            if txn.last_stable_offset >= end:
                return transactions
    return transactions


async def _index_of(tier: TierReader, manifest: Manifest) -> bytes:
    """The transaction index of a segment. Raises ScanError, RemoteStorageError."""
    try:
        return await read_part(tier, manifest, IndexType.TRANSACTION.value)
    except DamagedPartError as error:
        segment = manifest.metadata
        raise ScanError(
            f"Segment {segment.start_offset} of {segment.topic_id_partition}: {error}, "
            "so aborted records cannot be filtered out"
        ) from None


async def check_decided(
    tier: TierReader, view: TierView, lineage: TierLineage, end: int, aborted: Sequence[AbortedTxn]
) -> None:
    """Raise ScanError if a lost segment may hold how a transaction from before `end` has ended.

    `aborted` are those of which the marker was found. Also raises RemoteStorageError.
    """
    hole = next((each for each in lineage.holes if each.first >= end), None)
    before = [
        each for each in lineage.stretches if hole is not None and each.end_offset <= hole.first
    ]
    if hole is None or not before:
        return
    decided = {(each.producer_id, each.first_offset) for each in aborted}
    opened = await open_transactions(tier, view, before[-1].segment)
    undecided = sorted(first for _, first in opened - decided if first < end)
    if undecided:
        raise ScanError(
            f"The tier has lost how the transaction at offset {undecided[0]} of "
            f"{lineage.topic_id_partition.topic_partition} has ended: no segment holds the offsets "
            f"{hole} (failOnDataLoss=false reads its records as committed)"
        )


class AbortedRecords:
    """The set of batches that belong to an aborted transaction."""

    def __init__(self, transactions: Sequence[AbortedTxn]) -> None:
        self._of: dict[int, list[tuple[int, int]]] = {}
        for txn in sorted(transactions, key=lambda each: each.first_offset):
            self._of.setdefault(txn.producer_id, []).append((txn.first_offset, txn.last_offset))

    def __contains__(self, batch: RecordBatch) -> bool:
        if not batch.is_transactional:
            return False
        transactions = self._of.get(batch.producer_id, ())
        slot = bisect_right(transactions, batch.base_offset, key=lambda each: each[0])
        return slot > 0 and batch.base_offset <= transactions[slot - 1][1]
