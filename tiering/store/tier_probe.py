"""Checks once, before the first copy, that the store does what a tier relies on.

Some stores that claim to be compatible ignore byte ranges, omit objects from a listing, or return
old content. Without a probe a consumer would find out, long after the local copy is gone; with it
the operator finds out, from one message, and nothing is lost.

The probe also aborts multipart uploads of segments that are unfinished after a day, no matter who
began them, because S3 keeps and bills them forever. It leaves other uploads in the bucket alone.
Younger uploads are aborted with their segment, when its copy is given up.
"""

from contextlib import suppress

from ..remote_storage import RemoteResourceNotFound, RemoteStorageError
from .file_system import TierFileSystem
from .object_keys import parse_object_key
from .tier_store import IsLeft

ABANDONED_AFTER_MS = 24 * 3600 * 1000

_FIRST = bytes(range(251)) * 17
_SECOND = b"written over" * 7


async def probe(objects: TierFileSystem, key: str) -> None:
    """Write, read, overwrite, list and remove an object under `key`, which no one else uses.

    Raises RemoteStorageError: unchanged if the store cannot be reached or used at all, and with a
    sentence on what the store does wrong if it answers.
    """
    # A file system that is read-only or cannot remove raises here.
    await objects.remove(key)
    try:
        await _reads_what_was_written(objects, key)
        await _honours_ranges(objects, key)
        await _shows_the_newest(objects, key)
        await _lists_and_removes(objects, key)
    except BaseException:
        with suppress(RemoteStorageError):
            await objects.remove(key)
        raise


def _wrong(objects: TierFileSystem, what: str) -> RemoteStorageError:
    return RemoteStorageError(f"The remote tier {objects} cannot be used: the store {what}")


def abandoned_before(time_ms: int) -> IsLeft:
    """Selects uploads of our own keys that began before `time_ms`."""

    def is_abandoned(key: str, began_ms: int) -> bool:
        is_ours = key.count("/") == 1 and parse_object_key(key) is not None
        return is_ours and began_ms < time_ms

    return is_abandoned


async def _reads_what_was_written(objects: TierFileSystem, key: str) -> None:
    await objects.write_bytes(key, _FIRST)
    try:
        content = await objects.read(key)
    except RemoteResourceNotFound:
        raise _wrong(objects, "does not find an object that was just written") from None
    if content != _FIRST:
        raise _wrong(objects, "returns other bytes than were written")


async def _honours_ranges(objects: TierFileSystem, key: str) -> None:
    for start, end in ((0, 1), (1000, 1100), (len(_FIRST) - 5, len(_FIRST))):
        if await objects.read(key, start, end) != _FIRST[start:end]:
            raise _wrong(objects, "returns other bytes than the requested range")


async def _shows_the_newest(objects: TierFileSystem, key: str) -> None:
    await objects.write_bytes(key, _SECOND)
    if await objects.read(key) != _SECOND:
        raise _wrong(objects, "still returns the old content of an overwritten object")


async def _lists_and_removes(objects: TierFileSystem, key: str) -> None:
    by_key = {tier_object.key: tier_object for tier_object in await objects.list(key)}
    if key not in by_key:
        raise _wrong(objects, "does not list an object that was just written")
    if by_key[key].size != len(_SECOND):
        raise _wrong(objects, "lists an object with another size than it has")
    now_ms = by_key[key].modified_ms
    if now_ms is not None:
        with suppress(RemoteStorageError):
            # A writer may lack the right to list uploads; leaving uploads only costs money.
            await objects.abort_uploads("", abandoned_before(now_ms - ABANDONED_AFTER_MS))
    for _ in range(2):
        # Twice: a missing object counts as removed.
        await objects.remove(key)
    if any(tier_object.key == key for tier_object in await objects.list(key)):
        raise _wrong(objects, "still lists an object that was removed")
    try:
        await objects.read(key)
    except RemoteResourceNotFound:
        return
    raise _wrong(objects, "still returns an object that was removed")
