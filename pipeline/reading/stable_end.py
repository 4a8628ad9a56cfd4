"""Finds where a scan with `isolation=read_committed` ends: the tier's own last stable offset.

A broker copies a segment when all transactions in it have ended, but the marker that says how may
be in the next segment, which is copied later. Until then the tier alone cannot decide whether these
records are committed, so the scan ends before the first of them, as Kafka's consumers end at the
last stable offset of the log. The producer snapshot of the last segment, which holds the state at
its end, shows which transactions are open there.
"""

from ...storage.producer.producer_snapshot import CorruptSnapshotError, decode_snapshot
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ...tiering.remote_storage import IndexType
from ...tiering.tools.lineage_choice import TierLineage
from ...tiering.tools.tier_survey import DamagedPartError, TierReader, read_part
from .scan_options import ScanError, ScanOptions
from .tier_lineages import TierView


async def readable_end(
    tier: TierReader, view: TierView, lineage: TierLineage, options: ScanOptions
) -> int:
    """One past the last offset that a scan with these options may read of a partition.

    Raises ScanError if the last segment's snapshot is damaged, RemoteStorageError.
    """
    if not options.is_read_committed or not lineage.stretches:
        return lineage.log_end_offset
    opened = await open_transactions(tier, view, lineage.stretches[-1].segment)
    begins = [first_offset for _, first_offset in opened]
    return max(lineage.log_start_offset, min((*begins, lineage.log_end_offset)))


async def open_transactions(
    tier: TierReader, view: TierView, segment: RemoteLogSegmentMetadata
) -> set[tuple[int, int]]:
    """The producer id and first offset of each transaction that is open at a segment's end.

    Raises ScanError if the segment's snapshot is damaged, RemoteStorageError.
    """
    try:
        content = await read_part(
            tier, view.manifest_of(segment), IndexType.PRODUCER_SNAPSHOT.value
        )
        producers = decode_snapshot(content)
    except (DamagedPartError, CorruptSnapshotError) as error:
        raise ScanError(
            f"Segment {segment.start_offset} of {segment.topic_id_partition}: {error}, so open "
            "transactions cannot be found"
        ) from None
    return {
        (each.producer_id, each.current_txn_first_offset)
        for each in producers
        if each.current_txn_first_offset is not None
    }
