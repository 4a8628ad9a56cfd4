"""The storage contract on memory, on files, and on S3 (moto's server in this process)."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import pytest

from tierlog.storage.files import OsFiles
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.tiering.segments import PARTITION, segment_data, segment_metadata
from tierlog.tests.tiering.storage_conformance import StorageConformance, run
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.remote_storage import Failure, IndexType, RemoteStorageError
from tierlog.tiering.store import s3_store
from tierlog.tiering.store.file_system import TierFileSystem
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.manifest import Part, decode_manifest
from tierlog.tiering.store.object_keys import object_key
from tierlog.tiering.store.remote_url import OptionValue, RemoteUrl, remote_url
from tierlog.tiering.store.tier_probe import abandoned_before


def open_storage(location: RemoteUrl) -> Iterator[FsspecStorage]:
    storage = FsspecStorage(location, OsFiles(), ThreadedPool(4, "test"))
    yield storage
    asyncio.run(storage.close())


class TestMemory(StorageConformance):
    @pytest.fixture
    def storage(self) -> Iterator[FsspecStorage]:
        yield from open_storage(RemoteUrl("memory://tier"))


class TestFile(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Iterator[FsspecStorage]:
        yield from open_storage(RemoteUrl(f"file://{tmp_path}/remote"))


class MotoServer(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...

    def get_host_and_port(self) -> tuple[str, int]: ...


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    server = cast(
        "MotoServer",
        import_module("moto.server").ThreadedMotoServer("127.0.0.1", port=0, verbose=False),
    )
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def s3_location(endpoint: str, bucket: str) -> RemoteUrl:
    return remote_url(
        {
            "url": f"s3://{bucket}/prefix",
            "option.key": "testing",
            "option.secret": "testing-secret",
            "option.endpoint_url": endpoint,
            "option.client_kwargs.region_name": "us-east-1",
        }
    )


def make_bucket(endpoint: str, bucket: str) -> None:
    connection = HTTPConnection(endpoint.removeprefix("http://"), timeout=30)
    connection.request("PUT", f"/{bucket}")
    assert connection.getresponse().status == 200
    connection.close()


class TestS3(StorageConformance):
    @pytest.fixture
    def storage(self, s3_endpoint: str) -> Iterator[FsspecStorage]:
        location = s3_location(s3_endpoint, "tier")
        make_bucket(s3_endpoint, "tier")
        yield from open_storage(location)

    def test_a_bucket_that_does_not_exist_is_named(self, s3_endpoint: str) -> None:
        for storage in open_storage(s3_location(s3_endpoint, "nowhere")):
            with pytest.raises(RemoteStorageError, match="bucket does not exist"):
                run(storage, storage.copy_log_segment_data(segment_metadata(1), segment_data(b"1")))

    def test_an_unreachable_endpoint_is_distinguished_from_a_wrong_answer(self) -> None:
        location = s3_location("http://127.0.0.1:9", "tier")
        retries: dict[str, OptionValue] = {"retries": {"max_attempts": 0}}
        location = RemoteUrl(location.url, {**location.options, "config_kwargs": retries})
        for storage in open_storage(location):
            with pytest.raises(RemoteStorageError) as failed:
                run(storage, storage.fetch_index(segment_metadata(1), IndexType.OFFSET))
            assert failed.value.failure is Failure.UNREACHABLE
            assert "testing-secret" not in str(failed.value)


def names_under(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_the_manifest_is_written_last_and_describes_each_part(tmp_path: Path) -> None:
    metadata = segment_metadata(1, size=4, epochs=((0, 0), (2, 50)))
    for storage in open_storage(RemoteUrl(f"file://{tmp_path}/remote")):
        data = segment_data(b"1234", transaction_index=b"aborted")
        asyncio.run(storage.copy_log_segment_data(metadata, data))
    root = tmp_path / "remote"
    path = root / object_key(metadata, "manifest")
    manifest = decode_manifest(path.read_bytes())
    assert manifest.metadata == metadata
    assert manifest.parts["log"] == Part(4, 0xF63AF4EE)
    assert {suffix: part.size for suffix, part in manifest.parts.items()} == {
        "log": 4,
        "index": 12,
        "timeindex": 10,
        "txnindex": 7,
        "snapshot": 8,
        "leader_epoch_checkpoint": 8,
    }
    written = [each.stat().st_mtime_ns for each in path.parent.iterdir()]
    assert path.stat().st_mtime_ns == max(written)


class BrokenSegment:
    """A local segment whose disk fails after the first chunk."""

    nbytes = 3 * 8 * 1024 * 1024

    def slice(self, offset: int, size: int) -> "BrokenSegment":
        if offset:
            raise OSError(5, "Input/output error")
        return self

    def read(self) -> bytes:
        return bytes(8 * 1024 * 1024)


def test_a_copy_that_fails_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    metadata = segment_metadata(1, size=BrokenSegment.nbytes)
    data = segment_data(b"")
    broken = type(data)(
        log_segment=BrokenSegment(),
        offset_index=data.offset_index,
        time_index=data.time_index,
        transaction_index=None,
        producer_snapshot=data.producer_snapshot,
        leader_epoch_index=data.leader_epoch_index,
    )
    for storage in open_storage(RemoteUrl(f"file://{tmp_path}/remote")):
        with pytest.raises(RemoteStorageError):
            asyncio.run(storage.copy_log_segment_data(metadata, broken))
        assert {name.rpartition(".")[2] for name in names_under(tmp_path)} == {"tmp"}
        asyncio.run(storage.delete_log_segment_data(metadata))
        assert names_under(tmp_path) == set()


def test_an_object_cut_short_is_an_error_and_not_fewer_records(tmp_path: Path) -> None:
    metadata = segment_metadata(1, size=100)
    for storage in open_storage(RemoteUrl(f"file://{tmp_path}/remote")):
        asyncio.run(storage.copy_log_segment_data(metadata, segment_data(bytes(60))))
        with pytest.raises(RemoteStorageError, match="60 bytes") as failed:
            asyncio.run(storage.fetch_log_segment(metadata, 0, 99))
        assert failed.value.is_retriable


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("gs://bucket", "needs the Python package 'gcsfs', .* pip install gcsfs"),
        ("abfs://container", "needs the Python package 'adlfs', .* pip install adlfs"),
        ("nonsense://x", "cannot be opened: Protocol not known: nonsense"),
    ],
)
def test_what_is_missing_is_named_in_one_sentence(
    url: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("gcsfs", "gcsfs.core", "adlfs"):
        monkeypatch.setitem(sys.modules, package, None)
    for storage in open_storage(RemoteUrl(url)):
        with pytest.raises(RemoteStorageError, match=sentence) as failed:
            asyncio.run(storage.fetch_index(segment_metadata(1), IndexType.OFFSET))
        assert not failed.value.is_retriable


def test_the_sshfs_package_is_refused_under_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes over ssh:// where it is installed."""
    memory = import_module("fsspec.implementations.memory").MemoryFileSystem
    kind = type("SSHFileSystem", (memory,), {"__module__": "sshfs.spec", "protocol": "ssh"})
    registry = import_module("fsspec.registry")
    monkeypatch.setitem(registry._registry, "ssh", kind)
    for storage in open_storage(RemoteUrl("ssh://host/tier", {"host": "host"})):
        with pytest.raises(RemoteStorageError, match="ignores byte ranges; use sftp://"):
            asyncio.run(storage.fetch_index(segment_metadata(1), IndexType.OFFSET))


def test_fsspec_is_imported_at_the_first_use_and_not_before() -> None:
    program = (
        "import sys; import tierlog.tiering.store.fsspec_storage as storage;"
        "from tierlog.tiering.store.remote_url import RemoteUrl;"
        "from tierlog.storage.files import OsFiles;"
        "from tierlog.tiering.blocking_pool import ThreadedPool;"
        "storage.FsspecStorage(RemoteUrl('s3://bucket'), OsFiles(), ThreadedPool(1, 'x'));"
        "print([name for name in ('fsspec', 's3fs', 'msgpack') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "content", [b"", b"\xc1", b"\x80", b"\x81\xa7version\x02", b"\x81\xa7version\x01"]
)
def test_a_manifest_that_we_did_not_write_is_refused(content: bytes) -> None:
    with pytest.raises(RemoteStorageError):
        decode_manifest(content)


def test_only_segments_with_every_object_in_its_size_are_whole(tmp_path: Path) -> None:
    segments = [segment_metadata(number, size=100) for number in range(1, 5)]
    partition = segments[0].topic_id_partition
    location = RemoteUrl(f"file://{tmp_path}/remote")
    storage = FsspecStorage(location, OsFiles(), ThreadedPool(4, "test"))

    async def story() -> list[RemoteLogSegmentMetadata]:
        for segment in segments:
            await storage.copy_log_segment_data(segment, segment_data(bytes(100)))
        (tmp_path / "remote" / object_key(segments[1], "index")).unlink()
        (tmp_path / "remote" / object_key(segments[2], "manifest")).write_bytes(b"damaged")
        with (tmp_path / "remote" / object_key(segments[3], "log")).open("ab") as log:
            log.write(b"more")
        return await storage.whole_segments(partition)

    (whole,) = asyncio.run(story())
    assert whole.segment_id == segments[0].segment_id
    assert whole.start_offset == segments[0].start_offset
    assert asyncio.run(storage.whole_segments(partition._replace(partition=99))) == []
    asyncio.run(storage.close())


async def test_uploads_go_with_the_segment_or_the_partition_that_they_belong_to(
    s3_endpoint: str,
) -> None:
    """Of a broker that was killed; those of others in the bucket stay."""
    make_bucket(s3_endpoint, "uploads")
    location = s3_location(s3_endpoint, "uploads")
    given_up, copying = segment_metadata(1), segment_metadata(2)
    elsewhere = segment_metadata(3, partition=PARTITION._replace(partition=8))
    keys = [object_key(each, "log") for each in (given_up, copying, elsewhere)]
    pool = ThreadedPool(1, "test")
    client, root = await s3_store.connect(location.url, location.options, pool, 20)
    storage = FsspecStorage(location, OsFiles(), pool)

    async def left() -> list[str]:
        found = await client.uploads("uploads/")
        return sorted(each.path.removeprefix(f"{root}/") for each in found)

    for key in keys:
        upload = await client.begin_upload(f"{root}/{key}", 20 << 20)
        await upload.part(0, bytes(8 << 20))
    await client.begin_upload("uploads/backup.tar", 20 << 20)
    await storage.abort_uploads(given_up)
    assert await left() == sorted([*keys[1:], "uploads/backup.tar"])
    await storage.delete_partition(PARTITION)
    assert await left() == sorted([keys[2], "uploads/backup.tar"])
    root_tier = TierFileSystem(
        RemoteUrl("s3://uploads", location.options), OsFiles(), ThreadedPool(1, "test")
    )
    # To a tier at the bucket's root another tier's keys are none of its own either.
    assert await root_tier.abort_uploads("", abandoned_before(1 << 60)) == 0
    assert await root_tier.abort_uploads("prefix/", abandoned_before(1 << 60)) == 0
    await client.begin_upload(f"uploads/{keys[0]}", 20 << 20)
    assert await root_tier.abort_uploads("", abandoned_before(1 << 60)) == 1
    assert await left() == sorted([keys[2], "uploads/backup.tar"])
    await root_tier.close()
    await storage.close()
    await client.close()
