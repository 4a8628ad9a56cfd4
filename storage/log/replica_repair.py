"""A damaged log of a follower is truncated where the damage begins, and copied again from there.

Recovery keeps what follows a damaged batch or a lost segment that had been synced: for the only
copy of a partition, that loses the least. A replica that is not in sync has no record that its
leader lacks, and would never be whole otherwise: a follower fetches from the end of its log only.
"""

import logging

from .unified_log import UnifiedLog

_log = logging.getLogger(__name__)


def drop_damaged_part(log: UnifiedLog) -> None:
    """Truncate the log at the first offset that cannot be read; do nothing if its disk has none.

    Only for a replica that is not in sync. Raises KafkaError(KAFKA_STORAGE_ERROR).
    """
    offset, log.damaged_from = log.damaged_from, None
    if offset is None or not log.local_log_start_offset <= offset < log.log_end_offset:
        return
    _log.warning(
        "Truncated the log of %s at offset %d, where it is damaged: offsets %d to %d are copied "
        "again from the leader",
        log.topic_partition,
        offset,
        offset,
        log.log_end_offset - 1,
    )
    log.truncate_to(offset)
