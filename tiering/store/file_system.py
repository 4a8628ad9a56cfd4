"""The tier as an object store: any fsspec URL behind a few calls and one error type.

    files = TierFileSystem(location, files, pool)
    await files.write_bytes("orders-0/a", b"...")
    await files.read("orders-0/a", 0, 2)

The URL selects the store (`tier_store.py`). Every exception of a library becomes a
`RemoteStorageError` that says whether the object is missing, the store unreachable or throttling,
or access denied (`remote_failures.py`). If access is denied after it worked, the credentials may
have been rotated: the store reconnects once and the call is retried.

No error raised here contains a credential. The libraries' log lines are silenced, because they
contain headers and addresses; everything worth knowing comes back as an error.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Protocol, TypeVar, cast

from ...storage.files import Files
from ..blocking_pool import BlockingPool
from ..remote_storage import (
    Failure,
    OversizedObjectError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from .blocking_store import BlockingStore, FileSystem
from .impossible_tiers import LOCAL, local_path
from .local_store import LocalStore
from .manifest import PART_BYTES_MAX, Part
from .native_store import Connector, NativeStore
from .remote_failures import failure_of
from .remote_url import RemoteUrl
from .request_deadline import RequestDeadline
from .tier_packages import NATIVE_MODULES, PACKAGES, missing_package_message, package_of
from .tier_store import (
    IsLeft,
    SliceAt,
    Source,
    TierObject as TierObject,
    TierStore,
    beginning_of,
)

T = TypeVar("T")

DEADLINE_SECONDS = 30.0
"""The timeout of one request; a large object takes many requests."""

_REASON_CHARACTERS = 400
"""The longest library message shown; some append the whole page that a server sent."""

_NO_NAMES = frozenset(("", ".", ".."))
"""Not allowed as a part of a key."""
_NOWHERE = ("\0", "\\", "://")
"""Not allowed in a key: some stores would resolve it to a place outside the tier."""
_KEY_CHARACTERS = 100

_CHATTY = (
    *("adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "fsspec", "gcsfs", "google", "msal"),
    *("paramiko", "requests", "s3fs", "urllib3"),
)
"""Libraries that log their requests: tokens and signatures stand in those."""


class TierFileSystem:
    """The objects of a tier. Keys are relative to the root that the URL names.

    Every call raises only RemoteStorageError, and may be repeated.
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
        """Write an object of `size` bytes, which `slice_at` returns piece by piece."""
        self._check(key)
        source = Source(size, slice_at, self._pool)
        await self._do(lambda: self._store.put(key, source), key)
        return Part(size, source.crc)

    async def write_bytes(self, key: str, content: bytes) -> Part:
        """Write a small object."""
        return await self.write(key, len(content), partial(_Slice, content))

    async def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """Read an object, or exactly its bytes from `start` (inclusive) to `end` (exclusive).

        RemoteResourceNotFound if there is no such object. OversizedObjectError if there are more
        bytes than PART_BYTES_MAX up to its end. No bytes are had without a request.
        """
        self._check(key)
        if end == (start or 0):
            # HTTP has no name for an empty range.
            return b""
        content = await self._do(lambda: self._store.get(key, start, end), key)
        if end is None and len(content) > PART_BYTES_MAX:
            raise self._oversized(key, PART_BYTES_MAX)
        if end is not None and len(content) != end - (start or 0):
            length = end - (start or 0)
            text = (
                f"The remote tier {self} returned {len(content)} bytes of {key} where {length} "
                "were requested"
            )
            if len(content) > length:
                raise RemoteStorageError(f"{text}: it ignores byte ranges")
            raise RemoteStorageError(text, Failure.UNREACHABLE)
        return content

    async def read_small(self, key: str, bytes_max: int) -> bytes:
        """Read a whole object; OversizedObjectError if it has more than `bytes_max` bytes."""
        self._check(key)
        try:
            content = await self._do(lambda: self._store.get(key, 0, bytes_max + 1), key)
        except RemoteStorageError as error:
            if error.failure is not Failure.BROKEN:
                raise
            # Some stores reject a range of an empty object.
            content = await self.read(key)
        if len(content) > bytes_max:
            raise self._oversized(key, bytes_max)
        return content

    def _oversized(self, key: str, bytes_max: int) -> OversizedObjectError:
        return OversizedObjectError(
            f"The remote tier {self} has more than {bytes_max} bytes under {key}: no broker "
            "writes so much there"
        )

    async def remove(self, key: str) -> None:
        """Remove an object. A missing object counts as removed."""
        await self.remove_all([key])

    async def remove_all(self, keys: Sequence[str]) -> None:
        """Remove objects, in few requests where the store allows it; ignore missing ones."""
        for key in keys:
            self._check(key)
        if keys:
            await self._do(lambda: self._store.remove(keys))

    async def list(self, prefix: str = "") -> list[TierObject]:
        """All objects whose key starts with `prefix`, in order of their keys."""
        if prefix:
            self._check(prefix.removesuffix("/"))
        return sorted(await self._do(lambda: self._store.find(prefix)))

    async def list_beginnings(self, prefix: str, delimiter: str) -> Sequence[str]:
        """The different beginnings of keys, from `prefix` through the next `delimiter`, sorted.

        An object store counts a beginning as one key of a listing, however many objects have it:
        `("orders-", "/")` are the folders of a topic's partitions, a thousand in a request.
        """
        self._check(prefix.removesuffix("/"))
        try:
            return sorted(await self._do(lambda: self._store.find_beginnings(prefix, delimiter)))
        except RemoteStorageError as error:
            if error.failure is not Failure.BROKEN:
                raise
        # Some stores refuse every delimiter but a slash.
        keys = [tier_object.key for tier_object in await self.list(prefix)]
        beginnings = {beginning_of(key, prefix, delimiter) for key in keys}
        return sorted(beginning for beginning in beginnings if beginning is not None)

    async def remove_folder(self, folder: str) -> None:
        """Remove every object in a folder, and the folder itself where the store has folders."""
        self._check(folder.rstrip("/"))
        prefix = folder.rstrip("/") + "/"
        await self.remove_all([tier_object.key for tier_object in await self.list(prefix)])
        await self._do(lambda: self._store.remove_folder(prefix))

    async def abort_uploads(self, prefix: str, is_left: IsLeft) -> int:
        """Abort abandoned multipart uploads; see `TierStore`."""
        return await self._do(lambda: self._store.abort_uploads(prefix, is_left))

    async def close(self) -> None:
        """Close the connections. The next call makes new ones."""
        await self._store.close()

    def _check(self, key: str) -> None:
        """Refuse a key that could lead out of the tier's root in any store."""
        names = key.split("/")
        if any(name in _NO_NAMES for name in names) or any(each in key for each in _NOWHERE):
            raise RemoteStorageError(
                f"The remote tier {self} rejects the key {key[:_KEY_CHARACTERS]!a}: it points "
                "outside the tier"
            )

    async def _do(self, call: Callable[[], Awaitable[T]], key: str = "") -> T:
        """Make a call; `key` names the object in the error if there is no answer."""
        is_renewed = False
        while True:
            try:
                return await call()
            except RemoteStorageError as error:
                failed = error
            except Exception as error:
                # File systems raise whatever their libraries raise; this is where it is classified.
                failed = self._translate(error, key)
            was_renewed = is_renewed
            # The credentials may have changed since we connected.
            is_renewed = failed.failure is Failure.DENIED and await self._store.renew()
            if was_renewed or not is_renewed:
                raise failed

    def _translate(self, error: Exception, key: str) -> RemoteStorageError:
        if isinstance(error, NotImplementedError):
            return RemoteStorageError(
                f"The remote tier {self} cannot be used: the file system "
                f"{self._location.protocol!r} lacks operations that a tier needs, such as "
                "writing"
            )
        if isinstance(error, ImportError):
            missing = package_of(self._location.protocol, error)
            return RemoteStorageError(missing_package_message(self._location, missing))
        text = self._location.redact(" ".join(f"{type(error).__name__}: {error}".split()))
        text = text[:_REASON_CHARACTERS]
        if type(error) is TimeoutError and not str(error):
            text = f"no answer within {self._deadline_s:g} s" + (f" for {key}" if key else "")
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
    if protocol in LOCAL:
        return LocalStore(local_path(location.url), files, pool, deadline)
    if protocol in NATIVE_MODULES:
        return NativeStore(partial(_load, location), pool, deadline)
    return BlockingStore(protocol, partial(_open, location, deadline_s), pool, deadline)


def _load(location: RemoteUrl) -> Connector:
    """Import the module of a store and the package that it is made on."""
    name = NATIVE_MODULES[location.protocol]
    module = import_module(f"..{name}", __name__)
    _silence()
    import_module(PACKAGES[name])
    return cast("Connector", partial(module.connect, location.url, location.options))


def _silence() -> None:
    """Let no line of these libraries out, whatever level somebody sets for one of their parts."""
    for name in _CHATTY:
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False
        if not logger.handlers:
            # Without any, Python writes warnings to stderr.
            logger.addHandler(logging.NullHandler())


class _UrlToFs(Protocol):
    def __call__(self, url: str, **options: object) -> tuple[FileSystem, str]: ...


def _open(location: RemoteUrl, deadline_s: float) -> tuple[FileSystem, str]:
    """Open a new synchronous file system; only `memory` is shared by the whole process."""
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
        raise RemoteStorageError(missing_package_message(location, missing)) from None
    except ValueError as error:
        reason = location.redact(str(error))
        raise RemoteStorageError(
            f"The remote tier {location} cannot be opened: {reason}. "
            f"Known protocols are those of the installed fsspec and its companion packages"
        ) from None
    if type(file_system).__module__.partition(".")[0] == "sshfs":
        # Where the package sshfs is installed, it takes over ssh://.
        raise RemoteStorageError(
            f"The remote tier {location} cannot be used: the package sshfs ignores byte ranges; "
            "use sftp:// with paramiko"
        )
    return file_system, root.rstrip("/")


def _defaults(protocol: str, deadline_s: float) -> dict[str, object]:
    if protocol in ("sftp", "ssh"):
        # Without a timeout for each step, paramiko waits forever.
        steps = ("timeout", "banner_timeout", "auth_timeout", "channel_timeout")
        return dict.fromkeys(steps, deadline_s)
    # A cached listing would be stale.
    return {"use_listings_cache": False}
