"""No key leads out of a tier, whatever events, manifests or callers say."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.storage.files import OsFiles
from tierlog.storage.remote.remote_segment import (
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tierlog.tests.tiering.segments import PARTITION, segment_data, segment_metadata
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.metadata.metadata_events import decode_event, encode_event
from tierlog.tiering.remote_storage import RemoteStorageError
from tierlog.tiering.store.file_system import TierFileSystem
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.remote_url import RemoteUrl

ESCAPES = [
    "../victim/object",
    "..",
    "/etc/passwd",
    "a/../../victim/object",
    "a//b",
    "a/./b",
    "",
    "a\0b",
    "..\\victim",
    "file:///etc/passwd",
]


def locations(tmp_path: Path) -> list[RemoteUrl]:
    return [
        RemoteUrl(f"file://{tmp_path}/root"),
        RemoteUrl("memory://keys/root"),
        RemoteUrl("s3://bucket/root", {"endpoint_url": "http://127.0.0.1:1"}),
        RemoteUrl("gs://bucket/root"),
        RemoteUrl("abfs://container/root"),
        RemoteUrl("sftp://127.0.0.1/root"),
    ]


@pytest.mark.parametrize("key", ESCAPES)
def test_every_kind_of_store_refuses_a_key_that_leaves_its_root(tmp_path: Path, key: str) -> None:
    """Before anything is asked of it: most of these stores are not even there."""

    async def story() -> None:
        pool = ThreadedPool(1, "test")
        for location in locations(tmp_path):
            tier = TierFileSystem(location, OsFiles(), pool, 5)
            calls: list[Coroutine[object, object, object]] = [
                tier.write_bytes(key, b"x"),
                tier.read(key),
                tier.remove(key),
                tier.remove_all(["fine", key]),
                tier.remove_folder(key),
            ]
            if key:
                calls.append(tier.list(key))
            for call in calls:
                with pytest.raises(RemoteStorageError, match="points outside the tier"):
                    await call
            await tier.close()
        pool.stop()

    asyncio.run(story())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../victim", "..", "a/../../victim", "/", ""])
def test_a_forged_name_touches_nothing_outside(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim-7--1RvcGljLWlkLTE2LWJ5_w"
    victim.mkdir()
    metadata = segment_metadata(1, partition=PARTITION._replace(topic=name))
    for suffix in ("log", "manifest"):
        (victim / f"00000000000000000000-0-AAAAAAAAAAAAAAAAAAAAAQ.{suffix}").write_bytes(b"dear")
    before = sorted(tmp_path.rglob("*"))

    async def story() -> None:
        storage = FsspecStorage(
            RemoteUrl(f"file://{tmp_path}/root"), OsFiles(), ThreadedPool(1, "test")
        )
        for call in (
            storage.delete_log_segment_data(metadata),
            storage.delete_partition(metadata.topic_id_partition),
            storage.fetch_log_segment(metadata, 0, 3),
            storage.copy_log_segment_data(metadata, segment_data(b"log")),
        ):
            with pytest.raises(RemoteStorageError):
                await call
        await storage.close()

    asyncio.run(story())
    assert sorted(tmp_path.rglob("*")) == before


def test_an_event_with_such_a_name_is_no_event() -> None:
    """It is stepped over like any other that somebody else has written."""
    forged = RemotePartitionDeleteMetadata(
        topic_id_partition=PARTITION._replace(topic="../victim"),
        state=RemotePartitionDeleteState.DELETE_PARTITION_MARKED,
        event_timestamp_ms=1,
        broker_id=0,
    )
    with pytest.raises(KafkaError, match="no topic can have the partition"):
        decode_event(encode_event(forged))
