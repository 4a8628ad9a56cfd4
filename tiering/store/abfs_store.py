"""Azure Blob Storage and Data Lake Storage, through adlfs.

adlfs finds the account and the credentials; the requests are made here, with its service client.
"""

import base64
import io
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, cast

from ..blocking_pool import BlockingPool
from .native_store import PARTS_AT_ONCE, UnfinishedUpload
from .tier_store import TierObject, beginning_of


class AbfsClient:
    """The requests, on the service client of an `AzureBlobFileSystem`."""

    parts_at_once = PARTS_AT_ONCE
    whole_bytes_max = 512 * 1024

    def __init__(self, azure: Any, file_system: Any, limits: dict[str, Any]) -> None:  # noqa: ANN401  # adlfs publishes no types
        self._azure = azure
        self._service = file_system.service_client
        self._credential = file_system.credential
        self._limits = limits

    def _blob(self, path: str) -> Any:  # noqa: ANN401  # azure's client, as adlfs made it
        container, _, key = path.partition("/")
        return self._service.get_blob_client(container=container, blob=key)

    async def put(self, path: str, content: bytes) -> None:
        blob = self._blob(path)
        await blob.upload_blob(content, overwrite=True, length=len(content), **self._limits)

    async def begin_upload(self, path: str, size: int) -> "_AbfsUpload":
        return _AbfsUpload(self._azure, self._blob(path), self._limits)

    async def get(self, path: str, start: int | None, end: int | None) -> bytes:
        offset = start if start is not None or end is None else 0
        length = None if end is None else end - (start or 0)
        if length == 0:
            return b""
        answer = await self._blob(path).download_blob(
            offset=offset, length=length, max_concurrency=1, **self._limits
        )
        return cast("bytes", await answer.readall())

    async def remove(self, paths: Sequence[str]) -> list[Callable[[], Awaitable[object]]]:
        return [partial(self._remove, path) for path in paths]

    async def _remove(self, path: str) -> None:
        try:
            await self._blob(path).delete_blob(delete_snapshots="include", **self._limits)
        except self._azure.exceptions.ResourceNotFoundError:
            # Already deleted: deletion is idempotent.
            return

    async def page(self, prefix: str, after: str | None) -> tuple[list[TierObject], str | None]:
        container, _, key = prefix.partition("/")
        client = self._service.get_container_client(container)
        pages = client.list_blobs(name_starts_with=key, **self._limits).by_page(after)
        objects: list[TierObject] = []
        async for page in pages:
            async for each in page:
                modified_ms = int(each.last_modified.timestamp() * 1000)
                objects.append(TierObject(f"{container}/{each.name}", each.size, modified_ms))
            break
        return objects, pages.continuation_token or None

    async def beginnings(
        self, prefix: str, delimiter: str, after: str | None
    ) -> tuple[list[str], str | None]:
        # Accounts with hierarchical namespaces know no delimiter but a slash.
        objects, following = await self.page(prefix, after)
        beginnings = {beginning_of(each.key, prefix, delimiter) for each in objects}
        return [beginning for beginning in beginnings if beginning is not None], following

    async def uploads(self, prefix: str) -> list[UnfinishedUpload]:
        # The service drops staged blocks after a week.
        return []

    async def close(self) -> None:
        await self._service.close()
        if hasattr(self._credential, "close"):
            await self._credential.close()


class _AbfsUpload:
    """Blocks that are staged, and committed as one blob."""

    def __init__(self, azure: Any, blob: Any, limits: dict[str, Any]) -> None:  # noqa: ANN401  # adlfs publishes no types
        self._azure = azure
        self._blob = blob
        self._limits = limits
        self._parts = 0

    @staticmethod
    def _id(number: int) -> str:
        return base64.b64encode(b"%010d" % number).decode()

    async def part(self, number: int, content: bytes) -> None:
        # A stream is sent in small writes; a `bytes` object, sent in one, would block the loop.
        await self._blob.stage_block(
            self._id(number), io.BytesIO(content), length=len(content), **self._limits
        )
        self._parts = max(self._parts, number + 1)

    async def finish(self) -> None:
        blocks = [
            self._azure.blob.BlobBlock(block_id=self._id(number)) for number in range(self._parts)
        ]
        await self._blob.commit_block_list(blocks, **self._limits)

    async def abort(self) -> None:
        # Writing the blob drops its staged blocks; otherwise the service keeps them for a week.
        await self._blob.upload_blob(b"", overwrite=True, **self._limits)
        await self._blob.delete_blob(**self._limits)


def _end_with_its_loop(file_system: object) -> None:
    """Cancel adlfs's finalizer, which would close everything at exit, in a loop that is gone."""
    orders = cast("list[weakref.finalize[..., object]]", getattr(weakref.finalize, "_registry", ()))
    for order in list(orders):
        kept = order.peek()
        if kept is not None and kept[0] is file_system:
            order.detach()


class _Azure:
    """The modules of Azure's library that adlfs brings."""

    def __init__(self) -> None:
        self.blob: Any = import_module("azure.storage.blob")
        self.exceptions: Any = import_module("azure.core.exceptions")


async def connect(
    url: str, stated: Mapping[str, Any], pool: BlockingPool, deadline_s: float
) -> tuple[AbfsClient, str]:
    """Returns a client with credentials, and the tier's container and prefix."""

    def make() -> tuple[_Azure, Any, str]:
        module = import_module("adlfs")
        kind = module.AzureBlobFileSystem
        options = {**kind._get_kwargs_from_urls(url), **stated}
        made = kind(
            asynchronous=True, skip_instance_cache=True, use_listings_cache=False, **options
        )
        _end_with_its_loop(made)
        return _Azure(), made, str(made._strip_protocol(url)).rstrip("/")

    azure, file_system, root = await pool.run(make)
    limits = {
        "connection_timeout": min(5.0, deadline_s),
        "read_timeout": deadline_s,
        # Azure's first retry comes after fifteen seconds; our callers retry sooner.
        "retry_total": 0,
    }
    return AbfsClient(azure, file_system, limits), root
