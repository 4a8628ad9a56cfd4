"""The `durable-end` file: the flushed end of the metadata log, which recovery must not go below.

Recovery truncates a log at the first damaged batch. After a crash that is right for records that
were never synced, but one flipped bit among committed records would lose every record after it.
So each flush is recorded in a small file, and a start that would lose flushed records fails
before it changes anything.

The file is written after the fsync and not synced itself: it may be lost or stale, and then less is
checked, but it is never ahead of the disk. Only before a truncation is it synced.

Apache Kafka may since have run on the directory, recovered the log its own way and appended to it.
The records that it truncated are lost, and its log is the valid state. The epochs show this: in a
log that we flushed to the recorded offset, no batch below that offset has a later epoch than the
recorded one. To rule out damage, a later epoch must begin with a control record, must not be above
the epoch in `quorum-state`, and must not be followed by a batch of an older epoch.
"""

import logging
from collections.abc import Iterator
from typing import NamedTuple

from ...clients.errors import KafkaError
from ...clients.record.batch import RecordBatch
from ...clients.record.checksum import crc32c
from ...storage.directory.log_dir import LogDirError
from ...storage.files import Files
from ...storage.log_file import LOG_SUFFIX, has_offset_name, offset_of
from ...storage.segment.log_segment import PinnedSegment

DURABLE_END_FILE = "durable-end"

_log = logging.getLogger(__name__)


class DurableEnd(NamedTuple):
    """The end of the synced records, and their latest epoch."""

    offset: int
    epoch: int | None
    """None in a file from before epochs were recorded."""


def write_durable_end(files: Files, directory: str, offset: int, epoch: int) -> None:
    """Record that everything below the offset has been synced."""
    try:
        files.atomic_replace(_path(directory), _content(offset, epoch), durable=False)
    except OSError:
        # The records are on the disk, and an older file is still valid.
        return


def lower_durable_end(files: Files, directory: str, offset: int, epoch: int) -> None:
    """Record that everything from the offset on may go; call it before the truncation.

    It is on the disk when this returns: a start would refuse the truncated log. Raises OSError.
    """
    files.atomic_replace(_path(directory), _content(offset, epoch))


def _path(directory: str) -> str:
    return f"{directory}/{DURABLE_END_FILE}"


def _content(offset: int, epoch: int) -> bytes:
    text = f"{offset} {epoch}".encode()
    return b"%s %08x\n" % (text, crc32c(text))


def read_durable_end(files: Files, directory: str) -> DurableEnd | None:
    """The last recorded end; None if the file is missing or damaged."""
    try:
        text, _, checksum = files.read(_path(directory)).strip().rpartition(b" ")
        if int(checksum, 16) != crc32c(text):
            return None
        offset, *epochs = map(int, text.split())
    except (OSError, ValueError):
        return None
    return DurableEnd(offset, epochs[0] if epochs else None)


def refuse_to_cut(files: Files, directory: str, quorum_epoch: int, covered: int = 0) -> None:
    """Raise LogDirError if recovery would truncate flushed records. Writes nothing.

    Records below `covered` are in a snapshot and may go.
    """
    noted = read_durable_end(files, directory)
    if noted is None or noted.offset <= covered:
        return
    end = _sound_end(files, directory, noted.offset)
    if end >= noted.offset:
        return
    if noted.epoch is not None:
        later = _later_epoch(files, directory, noted.epoch, end)
        if later is not None and later <= quorum_epoch:
            _log.warning(
                "The metadata log in %s ends at offset %d, but this broker had flushed it up "
                "to offset %d in epoch %d. Another node, such as Apache Kafka on this "
                "directory, has since led it in epoch %d: its log is used.",
                directory,
                end,
                noted.offset,
                noted.epoch,
                later,
            )
            return
    raise LogDirError(
        f"The metadata log in {directory} is damaged at offset {end}; committed records up to "
        f"offset {noted.offset} would be lost. Restore the metadata log from a backup, or "
        f"remove {directory}/{DURABLE_END_FILE} to start without them."
    )


def first_offset(files: Files, directory: str) -> int:
    """The base offset of the log's first segment; 0 if it has none."""
    return next(iter(_bases(files, directory)), 0)


def _later_epoch(files: Files, directory: str, epoch: int, end: int) -> int | None:
    """The latest epoch below `end` if it is after `epoch` and the log is valid up to there."""
    later: int | None = None
    for base in _bases(files, directory):
        if base >= end:
            break
        path = f"{directory}/{base:020d}{LOG_SUFFIX}"
        handle = files.open(path)
        try:
            segment = PinnedSegment(base, path, handle.region(0, handle.size()))
            for batch in _readable(segment):
                if batch.base_offset >= end:
                    break
                if later is not None and batch.partition_leader_epoch < later:
                    return None
                if batch.partition_leader_epoch > (epoch if later is None else later):
                    if not batch.is_control:
                        return None
                    later = batch.partition_leader_epoch
        finally:
            handle.close()
    return later


def _bases(files: Files, directory: str) -> list[int]:
    """The base offsets of the log's segments, sorted."""
    return sorted(
        offset_of(name)
        for name in files.listdir(directory)
        if name.endswith(LOG_SUFFIX)
        and has_offset_name(name)
        and not files.is_directory(f"{directory}/{name}")
    )


def _sound_end(files: Files, directory: str, durable_end: int) -> int:
    """Where recovery would end the log, or some offset at or above `durable_end`."""
    bases = _bases(files, directory)
    end = bases[0] if bases else 0
    for base, following in zip(bases, [*bases[1:], None], strict=False):
        if end >= durable_end:
            break
        if base != end:
            return end
        end = _end_of_segment(files, f"{directory}/{base:020d}{LOG_SUFFIX}", base, following)
    return end


def _end_of_segment(files: Files, path: str, base: int, following: int | None) -> int:
    handle = files.open(path)
    try:
        # No checksum covers a base offset. Recovery corrects a wrong one if the next batch confirms
        # the correction, so such a batch counts only together with the next.
        proven = end = base
        for batch in _readable(PinnedSegment(base, path, handle.region(0, handle.size()))):
            is_placed = batch.base_offset == end
            if not batch.crc_is_valid() or not (is_placed or proven == end):
                return proven
            end += batch.last_offset_delta + 1
            if is_placed:
                proven = end
        return end if end == following else proven
    finally:
        handle.close()


def _readable(segment: PinnedSegment) -> Iterator[RecordBatch]:
    """The batches up to the first bytes that are not a batch."""
    try:
        yield from segment.batches(0)
    except KafkaError:
        return
