"""Google Cloud Storage, through gcsfs.

We use the plain file system of gcsfs, not its default one for zonal buckets and hierarchical
namespaces: a tier needs neither, and the default one asks the service for the kind of the bucket.
"""

import errno
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import Any, cast

from ..blocking_pool import BlockingPool
from .native_store import UnfinishedUpload
from .tier_store import TierObject

_TRIES_IN_VAIN = 3

_OCTETS = "application/octet-stream"


class GsClient:
    """The requests, on a `GCSFileSystem` of the running loop."""

    parts_at_once = 1  # a resumable upload is sent in order
    whole_bytes_max = 512 * 1024

    def __init__(self, gcsfs: Any, file_system: Any, pool: BlockingPool) -> None:  # noqa: ANN401  # gcsfs publishes no types
        self._gcsfs = gcsfs
        self._gs = file_system
        self._pool = pool

    async def _authorize(self) -> None:
        # Fetching a token blocks. It is valid for an hour and only fetched when due.
        await self._pool.run(self._gs.credentials.maybe_refresh)

    async def put(self, path: str, content: bytes) -> None:
        await self._authorize()
        bucket, _, key = path.partition("/")
        await self._gcsfs.simple_upload(self._gs, bucket, key, content, content_type=_OCTETS)

    async def begin_upload(self, path: str, size: int) -> "_GsUpload":
        await self._authorize()
        bucket, _, key = path.partition("/")
        location = await self._gcsfs.initiate_upload(self._gs, bucket, key, content_type=_OCTETS)
        return _GsUpload(self._gcsfs, self._gs, location, size)

    async def get(self, path: str, start: int | None, end: int | None) -> bytes:
        await self._authorize()
        if start is not None and start == end:
            return b""
        return cast("bytes", await self._gs._cat_file(path, start=start, end=end))

    async def remove(self, paths: Sequence[str]) -> list[Callable[[], Awaitable[object]]]:
        await self._authorize()
        return [partial(self._remove, path) for path in paths]

    async def _remove(self, path: str) -> None:
        bucket, _, key = path.partition("/")
        with suppress(FileNotFoundError):
            await self._gs._call("DELETE", "b/{}/o/{}", bucket, key)

    async def page(self, prefix: str, after: str | None) -> tuple[list[TierObject], str | None]:
        await self._authorize()
        bucket, _, key = prefix.partition("/")
        answer = await self._gs._call(
            "GET", "b/{}/o", bucket, prefix=key, pageToken=after, json_out=True
        )
        objects = [
            TierObject(f"{bucket}/{each['name']}", int(each["size"]), _modified_ms(each))
            for each in cast("list[dict[str, Any]]", answer.get("items") or [])
        ]
        return objects, answer.get("nextPageToken")

    async def beginnings(
        self, prefix: str, delimiter: str, after: str | None
    ) -> tuple[list[str], str | None]:
        await self._authorize()
        bucket, _, key = prefix.partition("/")
        answer = await self._gs._call(
            *("GET", "b/{}/o", bucket),
            prefix=key,
            delimiter=delimiter,
            pageToken=after,
            json_out=True,
        )
        paths = [f"{bucket}/{each}" for each in cast("list[str]", answer.get("prefixes") or [])]
        return paths, answer.get("nextPageToken")

    async def uploads(self, prefix: str) -> list[UnfinishedUpload]:
        # The service drops unfinished uploads after a week.
        return []

    async def close(self) -> None:
        if self._gs._session is not None:
            await self._gs._session.close()


class _GsUpload:
    """A resumable upload."""

    def __init__(self, gcsfs: Any, file_system: Any, location: str, size: int) -> None:  # noqa: ANN401  # gcsfs publishes no types
        self._gcsfs = gcsfs
        self._gs = file_system
        self._location = location
        self._size = size
        self._sent = 0

    async def part(self, number: int, content: bytes) -> None:
        start, end = self._sent, self._sent + len(content)
        tries_in_vain = 0
        while self._sent < end:
            rest = content[self._sent - start :]
            headers, answer = await self._gs._call(
                "POST",
                self._location,
                headers={
                    "Content-Range": f"bytes {self._sent}-{end - 1}/{self._size}",
                    "Content-Type": _OCTETS,
                    "Content-Length": str(len(rest)),
                },
                # A stream is sent in small writes; a `bytes` object, in one, would block the loop.
                data=self._gcsfs.UnclosableBytesIO(rest),
            )
            persisted = _persisted_bytes(headers.get("Range"), answer, self._size)
            if persisted < start:
                raise OSError(errno.EIO, f"The store lost {start} bytes of an unfinished upload")
            tries_in_vain = 0 if persisted > self._sent else tries_in_vain + 1
            if tries_in_vain >= _TRIES_IN_VAIN:
                raise OSError(
                    errno.EIO,
                    f"The store accepts no bytes of the upload after the first {persisted}",
                )
            self._sent = persisted

    async def finish(self) -> None:
        """Do nothing: the store completes the object when it has the last byte."""
        assert self._sent == self._size, "Every part was sent"

    async def abort(self) -> None:
        await self._gs._call("DELETE", self._location)


def _persisted_bytes(range_header: str | None, answer: bytes, size: int) -> int:
    """The number of bytes of an upload that the store has.

    The answer to the last part is the object, to any other part a 308 with the persisted range.
    A 308 without a range means that nothing was persisted.
    """
    if range_header is not None:
        return int(range_header.rpartition("-")[2]) + 1
    return size if b'"name"' in answer else 0


def _modified_ms(entry: dict[str, str]) -> int | None:
    updated = entry.get("updated")
    if not updated:
        return None
    return int(datetime.fromisoformat(updated).timestamp() * 1000)


async def connect(
    url: str, stated: Mapping[str, Any], pool: BlockingPool, deadline_s: float
) -> tuple[GsClient, str]:
    """Returns a client with credentials, and the tier's bucket and prefix."""
    options = {"requests_timeout": deadline_s, "project": "", **stated}

    def make() -> tuple[Any, Any, str]:
        core = import_module("gcsfs.core")
        made = core.GCSFileSystem(
            asynchronous=True, skip_instance_cache=True, use_listings_cache=False, **options
        )
        _try_once(made)
        return core, made, str(made._strip_protocol(url)).rstrip("/")

    core, file_system, root = await pool.run(make)
    await file_system._set_session()
    return GsClient(core, file_system, pool), root


def _try_once(file_system: Any) -> None:  # noqa: ANN401  # gcsfs publishes no types
    """Turn off the retries of gcsfs (six attempts): they delay failures that our callers handle."""
    kind = cast("Any", type(file_system))
    plain = getattr(kind._request, "__wrapped__", None)
    if plain is not None:
        file_system._request = partial(plain, file_system)
