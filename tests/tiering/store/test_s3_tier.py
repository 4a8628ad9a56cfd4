"""What only S3 has: credentials that are rotated under way, and uploads in parts that are left."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tests.tiering.served_storage import FailingSlice, PatternSlice, opened
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway
from tierlog.tests.tiering.servers.server import FETCH_SECONDS, located
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.remote_storage import Failure, RemoteStorageError
from tierlog.tiering.store import s3_store
from tierlog.tiering.store.object_keys import object_key
from tierlog.tiering.store.tier_probe import abandoned_before

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("go"),
    pytest.mark.timeout(FETCH_SECONDS + 300),
]

SIZE = 20 << 20


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[VersityGateway]:
    with VersityGateway(tmp_path) as running:
        yield running


def without_credentials(gateway: VersityGateway) -> dict[str, str]:
    secret = ("rsm.config.option.key", "rsm.config.option.secret")
    return {name: value for name, value in gateway.properties().items() if name not in secret}


async def test_credentials_that_were_rotated_are_taken_up(
    gateway: VersityGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's credentials change and the next call goes through, with no restart."""
    credentials = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)

    def write_credentials() -> None:
        lines = ("[default]", f"aws_access_key_id = {gateway.key}")
        credentials.write_text("\n".join((*lines, f"aws_secret_access_key = {gateway.secret}\n")))

    write_credentials()
    tier = opened(located(without_credentials(gateway)))
    await tier.write_bytes("key", b"before")
    gateway.stop()
    gateway.secret = "the-next-secret-key-of-a-test"
    gateway.start()
    with pytest.raises(RemoteStorageError) as failed:
        await tier.read("key")
    assert failed.value.failure is Failure.DENIED
    write_credentials()
    assert await tier.read("key") == b"before"
    # And once more without a refusal in between: the store asks again by itself.
    gateway.stop()
    gateway.secret = "the-last-secret-key-of-a-test"
    gateway.start()
    write_credentials()
    assert await tier.read("key") == b"before"
    await tier.write_bytes("key", b"after")
    await tier.close()


Requests = Callable[..., Awaitable[dict[str, Any]]]


async def uploads(gateway: VersityGateway) -> list[str]:
    """The keys of uploads in parts that the bucket still keeps."""
    client, _ = await client_of(gateway)
    answer = await requests_of(client)("list_multipart_uploads", Bucket=BUCKET)
    await client.close()
    found = cast("list[dict[str, str]]", answer.get("Uploads") or [])
    return [each["Key"] for each in found]


async def client_of(gateway: VersityGateway) -> tuple[s3_store.S3Client, str]:
    location = gateway.location
    pool = ThreadedPool(1, "test")
    return await s3_store.connect(location.url, location.options, pool, 20)


def requests_of(client: s3_store.S3Client) -> Requests:
    return cast("Requests", getattr(client, "_call"))  # noqa: B009  # a test looks inside


async def test_an_upload_that_fails_or_is_cancelled_is_aborted(gateway: VersityGateway) -> None:
    tier = opened(gateway.location)
    with pytest.raises(RemoteStorageError):
        await tier.write("failing", SIZE, FailingSlice)
    assert await uploads(gateway) == []
    begun = asyncio.Event()

    class Waiting(PatternSlice):
        def read(self) -> bytes:
            loop.call_soon_threadsafe(begun.set)
            return super().read()

    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(tier.write("cancelled", SIZE * 10, Waiting))
        await begun.wait()
        writing.cancel()
    assert await uploads(gateway) == []
    assert await tier.list() == []
    await tier.close()


async def test_what_a_killed_broker_left_is_aborted_when_it_is_old(gateway: VersityGateway) -> None:
    client, root = await client_of(gateway)
    key = object_key(segment_metadata(1), "log")
    upload = await client.begin_upload(f"{root}/{key}", SIZE)
    await upload.part(0, bytes(8 << 20))
    await client.begin_upload(f"{BUCKET}/another-tier/segment", SIZE)
    tier = opened(gateway.location)
    await tier.write_bytes("now", b"")
    (now,) = await tier.list()
    assert now.modified_ms is not None
    await client.begin_upload(f"{root}/of-something-else", SIZE)
    assert await tier.abort_uploads("", abandoned_before(now.modified_ms - 60_000)) == 0
    assert len(await uploads(gateway)) == 3
    assert await tier.abort_uploads("", abandoned_before(now.modified_ms + 60_000)) == 1
    assert await uploads(gateway) == ["another-tier/segment", "broker/of-something-else"]
    await client.close()
    await tier.close()
