"""S3 and compatible stores, through s3fs.

s3fs and its forty megabytes of dependencies are imported in the pool at the first use. Its service
description is read there too: parsing it takes longer than the loop may be blocked.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import Any, cast

from ..blocking_pool import BlockingPool
from .manifest import PART_BYTES_MAX
from .native_store import PARTS_AT_ONCE, UnfinishedUpload, options_of
from .remote_failures import ServiceError
from .tier_store import PIECE_BYTES, TierObject

_KEYS_PER_DELETION = 1000
_DEFAULTS: dict[str, Any] = {
    "config_kwargs": {
        "connect_timeout": 5,
        "max_pool_connections": 50,
        # Our copies and reads retry too, later and with longer back-off.
        "retries": {"mode": "standard", "max_attempts": 2},
    },
}
_TRIES = 2
"""The tries of s3fs, around the retries above: only s3fs retries after a truncated answer."""


class S3Client:
    """The requests, on an `S3FileSystem` of the running loop."""

    parts_at_once = PARTS_AT_ONCE
    whole_bytes_max = PIECE_BYTES

    def __init__(self, file_system: Any) -> None:  # noqa: ANN401  # s3fs publishes no types
        self._s3 = file_system

    @staticmethod
    def _split(path: str) -> dict[str, str]:
        bucket, _, key = path.partition("/")
        return {"Bucket": bucket, "Key": key}

    async def _call(self, operation: str, **arguments: object) -> dict[str, Any]:
        return cast("dict[str, Any]", await self._s3._call_s3(operation, **arguments))

    async def put(self, path: str, content: bytes) -> None:
        await self._call("put_object", **self._split(path), Body=content)

    async def begin_upload(self, path: str, size: int) -> "_S3Upload":
        target = self._split(path)
        begun = await self._call("create_multipart_upload", **target)
        return _S3Upload(self._call, {**target, "UploadId": begun["UploadId"]})

    async def get(self, path: str, start: int | None, end: int | None) -> bytes:
        headers = {} if start is None and end is None else {"Range": _range(start, end)}
        # One byte more shows that the store sends more than it was asked for.
        bytes_max = (PART_BYTES_MAX if end is None else end - (start or 0)) + 1

        async def attempt() -> bytes:
            answer = await self._call("get_object", **self._split(path), **headers)
            return await _content(answer["Body"], bytes_max)

        # An answer may be cut off after its first byte, too.
        retried = import_module("s3fs.core")._error_wrapper
        return cast("bytes", await retried(attempt, retries=_TRIES))

    async def remove(self, paths: Sequence[str]) -> list[Callable[[], Awaitable[object]]]:
        if len(paths) == 1:
            return [partial(self._call, "delete_object", **self._split(paths[0]))]
        batches = range(0, len(paths), _KEYS_PER_DELETION)
        return [
            partial(self._remove_batch, paths[first : first + _KEYS_PER_DELETION])
            for first in batches
        ]

    async def _remove_batch(self, paths: Sequence[str]) -> None:
        bucket = self._split(paths[0])["Bucket"]
        keys = [{"Key": self._split(path)["Key"]} for path in paths]
        answer = await self._call(
            "delete_objects", Bucket=bucket, Delete={"Objects": keys, "Quiet": True}
        )
        errors = _entries(answer, "Errors")
        if errors:
            # The status is 200 even if keys could not be removed.
            first = errors[0]
            raise ServiceError(str(first.get("Code")), str(first.get("Message")))

    async def page(self, prefix: str, after: str | None) -> tuple[list[TierObject], str | None]:
        bucket, _, key = prefix.partition("/")
        more = {"ContinuationToken": after} if after else {}
        answer = await self._call("list_objects_v2", Bucket=bucket, Prefix=key, **more)
        objects = [
            TierObject(
                f"{bucket}/{entry['Key']}", entry["Size"], _milliseconds(entry["LastModified"])
            )
            for entry in _entries(answer, "Contents")
        ]
        return objects, answer.get("NextContinuationToken")

    async def beginnings(
        self, prefix: str, delimiter: str, after: str | None
    ) -> tuple[list[str], str | None]:
        bucket, _, key = prefix.partition("/")
        more = {"ContinuationToken": after} if after else {}
        answer = await self._call(
            "list_objects_v2", Bucket=bucket, Prefix=key, Delimiter=delimiter, **more
        )
        paths = [f"{bucket}/{entry['Prefix']}" for entry in _entries(answer, "CommonPrefixes")]
        return paths, answer.get("NextContinuationToken")

    async def uploads(self, prefix: str) -> list[UnfinishedUpload]:
        bucket, _, key = prefix.partition("/")
        # At most a thousand; usually there are few, and the rest can wait for another day.
        answer = await self._call("list_multipart_uploads", Bucket=bucket, Prefix=key)
        return [
            UnfinishedUpload(
                f"{bucket}/{entry['Key']}",
                _milliseconds(entry["Initiated"]),
                partial(
                    self._call,
                    "abort_multipart_upload",
                    Bucket=bucket,
                    Key=entry["Key"],
                    UploadId=entry["UploadId"],
                ),
            )
            for entry in _entries(answer, "Uploads")
        ]

    async def close(self) -> None:
        creator = getattr(self._s3, "_s3creator", None)
        if creator is not None:
            await creator.__aexit__(None, None, None)


class _S3Upload:
    """A multipart upload."""

    def __init__(
        self, call: Callable[..., Awaitable[dict[str, Any]]], target: dict[str, str]
    ) -> None:
        self._call = call
        self._target = target
        self._tags: dict[int, str] = {}

    async def part(self, number: int, content: bytes) -> None:
        answer = await self._call(
            "upload_part", **self._target, PartNumber=number + 1, Body=content
        )
        self._tags[number] = answer["ETag"]

    async def finish(self) -> None:
        parts = [
            {"PartNumber": number + 1, "ETag": tag} for number, tag in sorted(self._tags.items())
        ]
        await self._call(
            "complete_multipart_upload", **self._target, MultipartUpload={"Parts": parts}
        )

    async def abort(self) -> None:
        await self._call("abort_multipart_upload", **self._target)


def _range(start: int | None, end: int | None) -> str:
    """A range of bytes as HTTP names it, which counts the last byte in."""
    return f"bytes={start or 0}-{'' if end is None else end - 1}"


async def _content(body: Any, bytes_max: int) -> bytes:  # noqa: ANN401  # aiobotocore has no types
    """The content of an answer, of which no more is taken than `bytes_max`."""
    pieces: list[bytes] = []
    left = bytes_max
    try:
        while left and (piece := cast("bytes", await body.read(left))):
            pieces.append(piece)
            left -= len(piece)
    finally:
        body.close()
    return b"".join(pieces)


def _entries(answer: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", answer.get(name) or [])


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


async def connect(
    url: str, stated: Mapping[str, Any], pool: BlockingPool, deadline_s: float
) -> tuple[S3Client, str]:
    """Returns a client with its session set up, and the tier's bucket and prefix."""
    timeouts = {"config_kwargs": {"read_timeout": deadline_s}}
    options = options_of(options_of(_DEFAULTS, timeouts), dict(stated))

    def make() -> tuple[Any, str]:
        made = import_module("s3fs").S3FileSystem(
            asynchronous=True,
            skip_instance_cache=True,
            use_listings_cache=False,
            session=_session(options),
            **options,
        )
        made.retries = _TRIES
        return made, str(made._strip_protocol(url)).rstrip("/")

    file_system, root = await pool.run(make)
    await file_system.set_session()
    return S3Client(file_system), root


def _session(options: dict[str, Any]) -> object:
    """A session with its data files already read: the first client would read them in the loop."""
    stated = options.pop("session", None)
    if stated is not None:
        return stated
    profile = options.pop("profile", None)
    session = import_module("aiobotocore.session").AioSession(profile=profile)
    # `Expect: 100-continue` costs each upload a round trip, and aiohttp waits forever if the answer
    # comes before the `100 Continue`. Our requests are small enough to be sent at once.
    expect = import_module("botocore.handlers").add_expect_header
    session.unregister("before-call.s3", expect)
    loader = session.get_component("data_loader")
    loader.load_service_model("s3", "service-2")
    loader.load_service_model("s3", "endpoint-rule-set-1")
    loader.load_data("endpoints")
    loader.load_data("partitions")
    loader.load_data_with_path("_retry")
    return session
