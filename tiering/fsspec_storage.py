"""The remote tier on any fsspec file system: `file`, `memory`, `s3`, whatever else is installed.

A segment is a few objects under keys that no other attempt shares (`object_keys.py`). The parts are
written first and a manifest last: object stores have no atomic rename, so the manifest is the sign
that the rest is whole, and the metadata topic decides whether the segment counts at all. On `file`
each object is written under a temporary name, synced and renamed, through the same door to the
disk as the log: what is COPY_SEGMENT_FINISHED must survive a crash of the machine, because the
local copy is deleted on the strength of it.

fsspec's own listing caches are off, since they would show a bucket as it once was, and byte ranges
are asked for exactly, because closing a stream early costs object stores a connection.

File systems block, so each call runs in a bounded pool of threads. fsspec and the package
behind a protocol (s3fs and its forty megabytes) are imported in that pool at the first use. Nothing
that is printed or raised from here contains a credential.
"""

import errno
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Protocol, Self, TypeVar, cast

from ..clients.record.checksum import crc32c
from ..storage.files import Files
from ..storage.remote_segment import RemoteLogSegmentMetadata
from .blocking_pool import BlockingPool
from .manifest import Manifest, Part, encode_manifest
from .object_keys import LOG_SUFFIX, MANIFEST_SUFFIX, object_key
from .remote_storage import (
    Failure,
    IndexType,
    LogSegmentData,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from .remote_url import RemoteUrl

T = TypeVar("T")

CHUNK_BYTES = 8 * 1024 * 1024
"""How much of a segment is in memory at once while it is copied; S3's parts are as large."""

_SUFFIXES = (LOG_SUFFIX, *(index.value for index in IndexType), MANIFEST_SUFFIX)


class Stream(Protocol):
    """An object that is being written."""

    def write(self, data: bytes, /) -> object: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> object: ...


class FileSystem(Protocol):
    """The little that is asked of an fsspec file system."""

    def open(self, path: str, mode: str, block_size: int) -> Stream: ...

    def pipe_file(self, path: str, value: bytes) -> object: ...

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes: ...

    def rm_file(self, path: str) -> object: ...

    def makedirs(self, path: str, exist_ok: bool = False) -> object: ...


class FsspecStorage:
    """A `RemoteStorageManager` on an fsspec URL."""

    def __init__(self, location: RemoteUrl, files: Files, pool: BlockingPool) -> None:
        self._location = location
        self._files = files
        self._pool = pool
        self._opened: tuple[FileSystem, str] | None = None

    def __str__(self) -> str:
        return str(self._location)

    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        await self._run(lambda: self._copy(metadata, data))
        return None

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        end = min(end_position + 1, metadata.segment_size_bytes)
        if not 0 <= start_position < end:
            return b""
        key = object_key(metadata, LOG_SUFFIX)
        chunk = await self._run(lambda: self._read(key, start_position, end))
        if len(chunk) != end - start_position:
            raise RemoteStorageError(
                f"The remote tier sent {len(chunk)} bytes of {key} "
                f"where {end - start_position} were asked for",
                Failure.UNREACHABLE,
            )
        return chunk

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        key = object_key(metadata, index_type.value)
        return await self._run(lambda: self._read(key, None, None))

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._run(lambda: self._delete(metadata))

    async def close(self) -> None:
        self._pool.stop()

    # Below here: in the pool's threads.

    async def _run(self, call: Callable[[], T]) -> T:
        try:
            return await self._pool.run(call)
        except RemoteStorageError:
            raise
        except Exception as error:
            # File systems raise whatever their libraries raise; told apart once, here.
            raise self._translated(error) from None

    def _file_system(self) -> tuple[FileSystem, str]:
        if self._opened is None:
            self._opened = _open_file_system(self._location)
        return self._opened

    def _copy(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> None:
        write = self._write_file if self._location.protocol == "file" else self._write_object
        log = data.log_segment
        parts = {LOG_SUFFIX: write(object_key(metadata, LOG_SUFFIX), log.nbytes, log.slice)}
        for index_type, content in data.indexes().items():
            key = object_key(metadata, index_type.value)
            parts[index_type.value] = write(key, len(content), _slices(content))
        manifest = encode_manifest(Manifest(metadata, parts))
        write(object_key(metadata, MANIFEST_SUFFIX), len(manifest), _slices(manifest))

    def _write_object(self, key: str, size: int, slice_at: Callable[[int, int], "_Piece"]) -> Part:
        file_system, root = self._file_system()
        path = f"{root}/{key}"
        if size <= CHUNK_BYTES:
            content = slice_at(0, size).read()
            file_system.pipe_file(path, content)
            return Part(size, crc32c(content))
        crc = 0
        with file_system.open(path, "wb", block_size=CHUNK_BYTES) as stream:
            for position in range(0, size, CHUNK_BYTES):
                content = slice_at(position, min(CHUNK_BYTES, size - position)).read()
                crc = crc32c(content, crc)
                stream.write(content)
        return Part(size, crc)

    def _write_file(self, key: str, size: int, slice_at: Callable[[int, int], "_Piece"]) -> Part:
        _, root = self._file_system()
        path = f"{root}/{key}"
        folder = path.rpartition("/")[0]
        self._files.mkdirs(folder)
        temporary = f"{path}.tmp"
        handle = self._files.open(temporary, create=True)
        crc = 0
        try:
            for position in range(0, size, CHUNK_BYTES):
                content = slice_at(position, min(CHUNK_BYTES, size - position)).read()
                crc = crc32c(content, crc)
                handle.write_at(position, content)
            handle.flush()
        finally:
            handle.close()
        self._files.rename(temporary, path)
        self._files.sync_dir(folder)
        return Part(size, crc)

    def _read(self, key: str, start: int | None, end: int | None) -> bytes:
        file_system, root = self._file_system()
        return file_system.cat_file(f"{root}/{key}", start=start, end=end)

    def _delete(self, metadata: RemoteLogSegmentMetadata) -> None:
        file_system, root = self._file_system()
        # The manifest first: a segment half removed must not look whole.
        for suffix in reversed(_SUFFIXES):
            for name in (
                (suffix, f"{suffix}.tmp") if self._location.protocol == "file" else (suffix,)
            ):
                try:
                    file_system.rm_file(f"{root}/{object_key(metadata, name)}")
                except FileNotFoundError:
                    # Gone already: deletion may be repeated.
                    continue

    def _translated(self, error: Exception) -> RemoteStorageError:
        text = self._location.redact(f"{type(error).__name__}: {error}")
        if isinstance(error, FileNotFoundError):
            return RemoteResourceNotFound(f"The remote tier {self} has no such object ({text})")
        if isinstance(error, NotImplementedError):
            return RemoteStorageError(
                f"The remote tier {self} cannot be used: file systems of "
                f"{self._location.protocol!r} do not offer what a tier needs, such as writing"
            )
        failure = _failure_of(error)
        return RemoteStorageError(f"The remote tier {self} is {failure.value} ({text})", failure)


class _Piece(Protocol):
    def read(self) -> bytes: ...


class _Bytes:
    """Bytes that read like a slice of a file."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self) -> bytes:
        return self._content


def _slices(content: bytes) -> Callable[[int, int], _Piece]:
    return lambda position, size: _Bytes(content[position : position + size])


_UNREACHABLE_NAMES = (
    "ConnectError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "ConnectionError",
    "EndpointConnectionError",
    "FSTimeoutError",
    "HTTPClientError",
    "ReadTimeoutError",
    "ServerDisconnectedError",
    "SSHException",
)
"""What the libraries behind fsspec call it; they share no base class that could be named here."""

_UNREACHABLE_ERRNOS = (
    errno.EAGAIN,
    errno.EHOSTUNREACH,
    errno.EIO,
    errno.ENETUNREACH,
    errno.ESTALE,
    errno.ETIMEDOUT,
)


def _failure_of(error: Exception) -> Failure:
    if isinstance(error, PermissionError):
        return Failure.DENIED
    if isinstance(error, ConnectionError | TimeoutError):
        return Failure.UNREACHABLE
    if any(kind.__name__ in _UNREACHABLE_NAMES for kind in type(error).__mro__):
        return Failure.UNREACHABLE
    if isinstance(error, OSError):
        # s3fs says EBUSY for SlowDown and its kin.
        if error.errno == errno.EBUSY:
            return Failure.THROTTLED
        if error.errno in _UNREACHABLE_ERRNOS:
            return Failure.UNREACHABLE
    return Failure.BROKEN


class _UrlToFs(Protocol):
    def __call__(self, url: str, **options: object) -> tuple[FileSystem, str]: ...


def _open_file_system(location: RemoteUrl) -> tuple[FileSystem, str]:
    url_to_fs = cast("_UrlToFs", import_module("fsspec.core").url_to_fs)
    options: dict[str, object] = {
        **location.options,
        "use_listings_cache": False,
        "skip_instance_cache": location.protocol != "memory",
    }
    try:
        file_system, root = url_to_fs(location.url, **options)
    except ImportError as error:
        missing = getattr(error.__cause__, "name", None) or error.name or str(error)
        raise RemoteStorageError(
            f"The remote tier {location} needs the Python package {missing!r}, which is not "
            f"installed: pip install {missing}"
        ) from None
    except ValueError as error:
        reason = location.redact(str(error))
        raise RemoteStorageError(
            f"The remote tier {location} cannot be opened: {reason}. "
            f"Known protocols are those of the installed fsspec and its companion packages"
        ) from None
    return file_system, root.rstrip("/")
