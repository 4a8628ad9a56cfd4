"""The remote tier: whether it works, what went to and from it, and what is under way."""

from typing import TYPE_CHECKING

from ...storage.log.unified_log import UnifiedLog
from ...storage.remote.remote_segment import RemoteLogSegmentState
from .sources import Json, StatusSources, Steps, page

if TYPE_CHECKING:
    from ...tiering.reading.cache_counts import CacheCounts
    from ...tiering.tier_statistics import PartitionGauge

IN_FLIGHT_MAX = 100
_PARTITIONS_A_STEP = 64


def tier_health(sources: StatusSources) -> Json:
    """The state of the tier, and a sentence about it."""
    if sources.remote is None:
        return {"state": "off", "sentence": "This broker has no remote tier."}
    trouble = sources.remote.tier_trouble
    if trouble:
        return {"state": "trouble", "sentence": trouble}
    return {"state": "ok", "sentence": "The remote tier works."}


def tier_status(sources: StatusSources, begin: int) -> Steps:
    """The tier's health and traffic; copies and deletions under way, from number `begin` on."""
    nbytes = segments = 0
    in_flight: list[Json] = []
    for count, partition in enumerate(list(sources.broker.replica_manager.partitions.values()), 1):
        log = partition.log
        if log.remote is not None and partition.is_leader:
            nbytes += log.remote.finished_bytes
            segments += len(log.remote) - len(log.remote.unfinished_segments())
            in_flight += _under_way(sources, log)
        if not count % _PARTITIONS_A_STEP:
            yield
    listed, more = page(in_flight, begin, IN_FLIGHT_MAX)
    config = sources.broker.config
    location = config.remote_storage or config.storage_plugin
    return {
        **tier_health(sources),
        "location": None if location is None else str(location),
        "bytes": nbytes,
        "segments": segments,
        **_traffic(sources),
        "in_flight": list(listed),
        "more": more,
    }


def _under_way(sources: StatusSources, log: UnifiedLog) -> list[Json]:
    assert log.remote is not None
    remote = sources.remote
    listed: list[Json] = []
    for segment in log.remote.unfinished_segments():
        is_deletion = segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED
        share = None if is_deletion or remote is None else remote.copied_share(segment.id)
        if is_deletion or share is not None:
            listed.append(
                {
                    "topic": log.topic_partition.topic,
                    "partition": log.topic_partition.partition,
                    "base": segment.start_offset,
                    "end": segment.end_offset + 1,
                    "bytes": segment.segment_size_bytes,
                    "copying": None if share is None else round(share, 3),
                    "deleting": is_deletion,
                }
            )
    return listed


def _traffic(sources: StatusSources) -> Json:
    remote = sources.remote
    if remote is None:
        zero = {"requests": 0, "bytes": 0, "errors": 0}
        cache = {"hits": 0, "joined": 0, "misses": 0}
        return {
            **dict.fromkeys((*_LAGS,), 0),
            "copies": zero,
            "fetches": zero,
            "deletions": {"requests": 0, "errors": 0},
            "chunk_cache": cache,
            "index_cache": cache,
        }
    counts = remote.statistics
    return {
        "copy_lag_bytes": _total(counts.remote_copy_lag_bytes),
        "copy_lag_segments": _total(counts.remote_copy_lag_segments),
        "delete_lag_bytes": _total(counts.remote_delete_lag_bytes),
        "delete_lag_segments": _total(counts.remote_delete_lag_segments),
        "copies": {
            "requests": counts.remote_copy_requests.total(),
            "bytes": counts.remote_copy_bytes.total(),
            "errors": counts.remote_copy_errors.total(),
        },
        "fetches": {
            "requests": counts.remote_fetch_requests.total(),
            "bytes": counts.remote_fetch_bytes.total(),
            "errors": counts.remote_fetch_errors.total(),
        },
        "deletions": {
            "requests": counts.remote_delete_requests.total(),
            "errors": counts.remote_delete_errors.total(),
        },
        "chunk_cache": _cache(remote.reads.chunk_counts),
        "index_cache": _cache(remote.reads.index_counts),
    }


_LAGS = ("copy_lag_bytes", "copy_lag_segments", "delete_lag_bytes", "delete_lag_segments")


def _total(gauge: "PartitionGauge") -> int:
    return int(sum(gauge.by_topic().values()))


def _cache(counts: "CacheCounts") -> Json:
    return {"hits": counts.hits, "joined": counts.joined, "misses": counts.misses}
