"""The tier as a place for objects: any fsspec URL behind six calls and one kind of error.

    files = TierFileSystem(location, files, pool)
    await files.write_bytes("orders-0/a", b"...")
    await files.read("orders-0/a", 0, 2)

Which store is behind it follows from the URL (`tier_store.py`). Whatever the libraries raise
becomes a `RemoteStorageError` that says whether the object is missing, the store unreachable or
throttling, or access denied (`remote_failures.py`). Access that is denied where it was granted
before means that credentials were rotated: the store connects anew, once, and is asked again.

Nothing that is raised from here contains a credential, and what the libraries log is not passed on:
they print headers and addresses, and everything worth knowing comes back as an error.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeVar, cast

from ...storage.files import Files
from ..blocking_pool import BlockingPool
from ..remote_storage import (
    Failure,
    OversizedObjectError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from .blocking_store import BlockingStore, FileSystem
from .local_store import LocalStore
from .manifest import Part
from .native_store import Connector, NativeStore
from .remote_failures import failure_of
from .remote_url import RemoteUrl
from .request_deadline import RequestDeadline
from .tier_packages import NATIVE_MODULES, missing_package_sentence, package_of
from .tier_store import IsLeft, SliceAt, Source, TierObject as TierObject, TierStore

T = TypeVar("T")

DEADLINE_SECONDS = 30.0
"""After so long a request counts as failed; an object is many requests."""

_REASON_CHARACTERS = 400
"""Of what a library says; some append the whole page that a server sent."""

_NO_NAMES = frozenset(("", ".", ".."))
"""What no part of a key may be."""
_NOWHERE = ("\0", "\\", "://")
"""What no key may hold: some stores would take it for a place elsewhere."""
_KEY_CHARACTERS = 100

_CHATTY = ("adlfs", "aiobotocore", "azure", "botocore", "fsspec", "gcsfs", "paramiko", "s3fs")


class TierFileSystem:
    """The objects of a tier. Keys are relative to the root that the URL names.

    Every call raises RemoteStorageError and nothing else, and may be made again.
    """

    def __init__(
        self,
        location: RemoteUrl,
        files: Files,
        pool: BlockingPool,
        deadline_s: float = DEADLINE_SECONDS,
    ) -> None:
        self._location = location
        self._pool = pool
        self._store = _store_for(location, files, pool, deadline_s)
        self._deadline_s = deadline_s

    def __str__(self) -> str:
        return str(self._location)

    async def write(self, key: str, size: int, slice_at: SliceAt) -> Part:
        """Write an object of `size` bytes, which `slice_at` gives piece by piece."""
        self._check(key)
        source = Source(size, slice_at, self._pool)
        await self._do(lambda: self._store.put(key, source))
        return Part(size, source.crc)

    async def write_bytes(self, key: str, content: bytes) -> Part:
        """Write a small object."""
        return await self.write(key, len(content), partial(_Slice, content))

    async def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """An object, or its bytes from `start` up to but without `end`: exactly those, or an error.

        RemoteResourceNotFound if there is no such object.
        """
        self._check(key)
        content = await self._do(lambda: self._store.get(key, start, end))
        if end is not None and len(content) != end - (start or 0):
            length = end - (start or 0)
            text = (
                f"The remote tier {self} sent {len(content)} bytes of {key} "
                f"where {length} were asked for"
            )
            if len(content) > length:
                raise RemoteStorageError(f"{text}: it ignores byte ranges")
            raise RemoteStorageError(text, Failure.UNREACHABLE)
        return content

    async def read_small(self, key: str, bytes_max: int) -> bytes:
        """All of an object that nobody has made larger than this; OversizedObjectError if it is."""
        self._check(key)
        try:
            content = await self._do(lambda: self._store.get(key, 0, bytes_max + 1))
        except RemoteStorageError as error:
            if error.failure is not Failure.BROKEN:
                raise
            # Of an object without a single byte some stores have no range.
            content = await self.read(key)
        if len(content) > bytes_max:
            raise OversizedObjectError(
                f"The remote tier {self} has more than {bytes_max} bytes under {key}, which no "
                "broker writes there"
            )
        return content

    async def remove(self, key: str) -> None:
        """Remove an object. One that is not there counts as removed."""
        await self.remove_all([key])

    async def remove_all(self, keys: Sequence[str]) -> None:
        """Remove objects, with few requests where the store allows it; those missing are fine."""
        for key in keys:
            self._check(key)
        if keys:
            await self._do(lambda: self._store.remove(keys))

    async def list(self, prefix: str = "") -> list[TierObject]:
        """All objects whose key starts with `prefix`, in order of their keys."""
        if prefix:
            self._check(prefix.removesuffix("/"))
        return sorted(await self._do(lambda: self._store.find(prefix)))

    async def remove_folder(self, folder: str) -> None:
        """Remove every object in a folder, and the folder itself where a store has such a thing."""
        self._check(folder.rstrip("/"))
        prefix = folder.rstrip("/") + "/"
        await self.remove_all([each.key for each in await self.list(prefix)])
        await self._do(lambda: self._store.remove_folder(prefix))

    async def abort_uploads(self, prefix: str, is_left: IsLeft) -> int:
        """Abort uploads in parts that are left; see `TierStore`."""
        return await self._do(lambda: self._store.abort_uploads(prefix, is_left))

    async def close(self) -> None:
        """Let go of connections. The next call makes new ones."""
        await self._store.close()

    def _check(self, key: str) -> None:
        """Refuse a key that may leave the tier's root, in whatever store."""
        names = key.split("/")
        if any(each in _NO_NAMES for each in names) or any(each in key for each in _NOWHERE):
            raise RemoteStorageError(
                f"The remote tier {self} has no place for {key[:_KEY_CHARACTERS]!a}: it leads out "
                "of the tier"
            )

    async def _do(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._once(call)
        except RemoteStorageError as error:
            if error.failure is not Failure.DENIED or not await self._store.renew():
                raise
        # It worked until now, so the credentials may be others than when we connected.
        try:
            return await self._once(call)
        except RemoteStorageError as error:
            if error.failure is Failure.DENIED:
                await self._store.renew()
            raise

    async def _once(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await call()
        except RemoteStorageError:
            raise
        except Exception as error:
            # File systems raise whatever their libraries raise; told apart once, here.
            raise self._translated(error) from None

    def _translated(self, error: Exception) -> RemoteStorageError:
        if isinstance(error, NotImplementedError):
            return RemoteStorageError(
                f"The remote tier {self} cannot be used: file systems of "
                f"{self._location.protocol!r} do not offer what a tier needs, such as writing"
            )
        if isinstance(error, ImportError):
            missing = package_of(self._location.protocol, error)
            return RemoteStorageError(missing_package_sentence(self._location, missing))
        text = self._location.redact(" ".join(f"{type(error).__name__}: {error}".split()))
        text = text[:_REASON_CHARACTERS]
        if type(error) is TimeoutError and not str(error):
            text = f"no answer within {self._deadline_s:g} s"
        failure = failure_of(error)
        if failure is Failure.NOT_FOUND:
            return RemoteResourceNotFound(f"The remote tier {self} has no such object ({text})")
        return RemoteStorageError(f"The remote tier {self} is {failure.value} ({text})", failure)


class _Slice:
    """Bytes that read like a slice of a file."""

    def __init__(self, content: bytes, position: int, size: int) -> None:
        self._content = content[position : position + size]

    def read(self) -> bytes:
        return self._content


def _store_for(
    location: RemoteUrl, files: Files, pool: BlockingPool, deadline_s: float
) -> TierStore:
    protocol = location.protocol
    deadline = RequestDeadline(str(location), deadline_s)
    if protocol in ("file", "local"):
        return LocalStore(_local_path(location.url), files, pool, deadline)
    if protocol in NATIVE_MODULES:
        return NativeStore(_connector(location), pool, deadline)
    return BlockingStore(protocol, partial(_open, location, deadline_s), pool, deadline)


def _local_path(url: str) -> str:
    # As fsspec has it: what follows `file://` is a path and no host, and may begin with `~`.
    return os.path.abspath(os.path.expanduser(url.partition("://")[2]))


def _connector(location: RemoteUrl) -> Connector:
    async def connect(pool: BlockingPool, deadline_s: float) -> Any:  # noqa: ANN401  # see Connector
        name = NATIVE_MODULES[location.protocol]
        module = await pool.run(partial(import_module, f"..{name}", __name__))
        _silence()
        return await module.connect(location.url, location.options, pool, deadline_s)

    return connect


def _silence() -> None:
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class _UrlToFs(Protocol):
    def __call__(self, url: str, **options: object) -> tuple[FileSystem, str]: ...


def _open(location: RemoteUrl, deadline_s: float) -> tuple[FileSystem, str]:
    """A synchronous file system of its own; `memory` alone is one for the whole process."""
    url_to_fs = cast("_UrlToFs", import_module("fsspec.core").url_to_fs)
    _silence()
    options: dict[str, object] = {
        **_defaults(location.protocol, deadline_s),
        **location.options,
        "skip_instance_cache": location.protocol != "memory",
    }
    try:
        file_system, root = url_to_fs(location.url, **options)
    except ImportError as error:
        missing = package_of(location.protocol, error)
        raise RemoteStorageError(missing_package_sentence(location, missing)) from None
    except ValueError as error:
        reason = location.redact(str(error))
        raise RemoteStorageError(
            f"The remote tier {location} cannot be opened: {reason}. "
            f"Known protocols are those of the installed fsspec and its companion packages"
        ) from None
    if type(file_system).__module__.partition(".")[0] == "sshfs":
        # It takes over ssh:// where it is installed.
        raise RemoteStorageError(
            f"The remote tier {location} cannot be used: the package sshfs ignores byte ranges; "
            "use sftp:// with paramiko"
        )
    return file_system, root.rstrip("/")


def _defaults(protocol: str, deadline_s: float) -> dict[str, object]:
    if protocol in ("sftp", "ssh"):
        # paramiko has a time-out for each step, and else waits for ever.
        steps = ("timeout", "banner_timeout", "auth_timeout", "channel_timeout")
        return dict.fromkeys(steps, deadline_s)
    # A listing that is kept would show a store as it once was.
    return {"use_listings_cache": False}
