"""How far the metadata log was on the disk, and whether a recovery would cut below that.

A recovery ends a log at the first batch that is damaged. After a crash that is right for what was
never synced, but one flipped bit among committed records would take back all decisions behind it.
So each flush is noted in a small file, and a start that would lose what was flushed is refused
before it changes anything.

The note is written after the fsync and never synced itself: it may be lost or old, and then less
is checked, but it is never ahead of what is on the disk.
"""

from collections.abc import Iterator

from ..clients.errors import KafkaError
from ..clients.record.batch import RecordBatch
from ..clients.record.checksum import crc32c
from ..storage.files import Files
from ..storage.log_dir import LogDirError
from ..storage.log_file import LOG_SUFFIX, has_offset_name, offset_of
from ..storage.log_segment import PinnedSegment

DURABLE_END_FILE = "durable-end"


def write_durable_end(files: Files, directory: str, offset: int) -> None:
    """Note that everything below the offset has been synced."""
    text = str(offset).encode()
    try:
        files.atomic_replace(
            f"{directory}/{DURABLE_END_FILE}", b"%s %08x\n" % (text, crc32c(text)), durable=False
        )
    except OSError:
        # The records are on the disk, and an older note is still true.
        return


def read_durable_end(files: Files, directory: str) -> int | None:
    """The offset last noted; None if no whole note is there."""
    try:
        text, checksum = files.read(f"{directory}/{DURABLE_END_FILE}").split()
        return int(text) if int(checksum, 16) == crc32c(text) else None
    except (OSError, ValueError):
        return None


def refuse_to_cut(files: Files, directory: str) -> None:
    """Raise LogDirError if a recovery would cut what was on the disk once. Nothing is written."""
    durable_end = read_durable_end(files, directory)
    if durable_end is None:
        return
    end = _sound_end(files, directory, durable_end)
    if end < durable_end:
        raise LogDirError(
            f"The metadata log in {directory} is damaged at offset {end}, and what was committed "
            f"from there to offset {durable_end} would be lost: restore the metadata log from a "
            f"backup, or remove {directory}/{DURABLE_END_FILE} to go on without what is lost."
        )


def _sound_end(files: Files, directory: str, durable_end: int) -> int:
    """Where a recovery would end the log, or something at or above `durable_end`."""
    bases = sorted(
        offset_of(name)
        for name in files.listdir(directory)
        if name.endswith(LOG_SUFFIX)
        and has_offset_name(name)
        and not files.is_directory(f"{directory}/{name}")
    )
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
        # No checksum covers a base offset: a recovery puts it right if what follows proves it, so
        # a batch with a wrong one counts only together with the next.
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
    """The batches up to bytes that cannot be one."""
    try:
        yield from segment.batches(0)
    except KafkaError:
        return
