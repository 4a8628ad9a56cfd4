"""What a fetch at an offset would touch: a segment here or in the tier, and what is cached."""

from ...storage.log.unified_log import UnifiedLog
from .sources import Json, StatusSources


def fetch_status(sources: StatusSources, log: UnifiedLog, offset: int) -> Json:
    """Where a consumer that asks for the offset is answered from; loads and reads nothing."""
    head: Json = {
        "topic": log.topic_partition.topic,
        "partition": log.topic_partition.partition,
        "offset": offset,
    }
    nothing: Json = {"first_byte": None, "index_cached": None, "chunk_cached": None}
    if not log.log_start_offset <= offset <= log.log_end_offset:
        return {**head, "where": "out of range", "segment": None, **nothing}
    if offset >= log.high_watermark:
        return {**head, "where": "end", "segment": None, **nothing}
    if offset >= log.local_log_start_offset:
        return {**head, "where": "local", "segment": _local_segment(log, offset), **nothing}
    preview = None if sources.remote is None else sources.remote.reads.preview(log, offset)
    if preview is None:
        return {**head, "where": "remote", "segment": None, **nothing}
    segment = preview.segment
    return {
        **head,
        "where": "remote",
        "segment": _segment(
            segment.start_offset, segment.end_offset + 1, segment.segment_size_bytes
        ),
        "first_byte": preview.first_byte,
        "index_cached": preview.has_index,
        "chunk_cached": preview.has_chunk,
    }


def _local_segment(log: UnifiedLog, offset: int) -> Json | None:
    segment = log.local.segments.floor(offset)
    if segment is None:
        return None
    return _segment(segment.base_offset, log.end_offset_of(segment), segment.size)


def _segment(base: int, end: int, nbytes: int) -> Json:
    return {"base": base, "end": end, "bytes": nbytes}
