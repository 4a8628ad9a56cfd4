"""Does the store behind the tier's URL do what a tier stands on? Asked once, before the first copy.

Stores that call themselves compatible are found to ignore byte ranges, to leave objects out of a
listing, or to show what was there before. Any of these would be found by a consumer, long after the
local copy is gone; here it is found by the operator, in one sentence, with nothing lost.

Uploads in parts of segments that nobody finished for a day, which S3 keeps, and bills, for ever,
are aborted on the way, whoever began them. Those of other things in the bucket are none of ours.
What is younger goes with the segment that it belongs to, when its copy is given up.
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
    """Write, read, overwrite, list and remove an object under `key`, which nobody else uses.

    Raises RemoteStorageError: as it came where the store cannot be reached or used at all, and with
    a sentence on what the store does wrong where it answers.
    """
    # File systems that only read, or cannot remove, say so here.
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
    """Uploads of our own keys that began before then."""

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
        raise _wrong(objects, "gives back other bytes than were written")


async def _honours_ranges(objects: TierFileSystem, key: str) -> None:
    for start, end in ((0, 1), (1000, 1100), (len(_FIRST) - 5, len(_FIRST))):
        if await objects.read(key, start, end) != _FIRST[start:end]:
            raise _wrong(objects, "gives other bytes than those of the range that is asked for")


async def _shows_the_newest(objects: TierFileSystem, key: str) -> None:
    await objects.write_bytes(key, _SECOND)
    if await objects.read(key) != _SECOND:
        raise _wrong(objects, "still gives what an object was before it was written over")


async def _lists_and_removes(objects: TierFileSystem, key: str) -> None:
    by_key = {each.key: each for each in await objects.list(key)}
    if key not in by_key:
        raise _wrong(objects, "does not list an object that was just written")
    if by_key[key].size != len(_SECOND):
        raise _wrong(objects, "lists an object with another size than it has")
    now_ms = by_key[key].modified_ms
    if now_ms is not None:
        with suppress(RemoteStorageError):
            # Not everybody who may write may see these; they cost money and nothing else.
            await objects.abort_uploads("", abandoned_before(now_ms - ABANDONED_AFTER_MS))
    for _ in range(2):
        # Twice: what is not there counts as removed.
        await objects.remove(key)
    if any(each.key == key for each in await objects.list(key)):
        raise _wrong(objects, "still lists an object that was removed")
    try:
        await objects.read(key)
    except RemoteResourceNotFound:
        return
    raise _wrong(objects, "still gives an object that was removed")
