"""What every store must do that is a server: the cases that need it refused, lost, frozen or new.

They go on where `storage_conformance.py` ends, C11 to C20, with a real server each.
"""

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.storage.files import OsFiles
from tierlog.tests.tiering.segments import segment_data, segment_metadata
from tierlog.tests.tiering.servers.server import StoreServer, located
from tierlog.tests.tiering.storage_conformance import StorageConformance, run
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.remote_storage import (
    Failure,
    IndexType,
    OversizedObjectError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierlog.tiering.store.file_system import TierFileSystem
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.object_keys import partition_prefix
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.tools.in_parallel import in_parallel

DEADLINE_S = 20.0
LOG = bytes(range(256)) * 4
LARGE_SEGMENT_BYTES = 200 << 20
MEMORY_BYTES_MAX = 100 << 20

_LARGE_COPY = """
import asyncio, json, resource, sys
from tierlog.tests.tiering.served_storage import copy_large
before, after = asyncio.run(copy_large(json.loads(sys.argv[1]), int(sys.argv[2])))
print(before, after)
"""


def opened(location: RemoteUrl, deadline_s: float = DEADLINE_S) -> TierFileSystem:
    return TierFileSystem(location, OsFiles(), ThreadedPool(4, "test"), deadline_s)


class ServedStorageConformance(StorageConformance):
    """Subclasses say which server; one is started for the whole class (`server`)."""

    kind: type[StoreServer]

    @pytest.fixture
    def storage(self, server: StoreServer) -> FsspecStorage:
        return FsspecStorage(server.location, OsFiles(), ThreadedPool(4, "test"), DEADLINE_S)

    @pytest.fixture
    def tier(self, server: StoreServer) -> TierFileSystem:
        return opened(server.location)

    def test_c11_wrong_credentials_are_denied_and_never_shown(
        self, server: StoreServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        wrong = server.wrong_credentials()
        if wrong is None:
            # This server lets everybody in; what its protocol says to strangers is told apart in
            # test_remote_failures.py.
            return
        tier = opened(located(wrong))

        async def story() -> list[RemoteStorageError]:
            await_each = [
                tier.write_bytes("x", b"1"),
                tier.read("x"),
                tier.list(),
                tier.remove("x"),
            ]
            outcomes = await asyncio.gather(*await_each, return_exceptions=True)
            await tier.close()
            return [each for each in outcomes if isinstance(each, RemoteStorageError)]

        with caplog.at_level(logging.DEBUG):
            errors = asyncio.run(story())
        assert [each.failure for each in errors] == [Failure.DENIED] * 4
        said = caplog.text + "".join(map(str, errors)) + "".join(map(repr, errors))
        for secret in server.secrets:
            assert secret not in said

    def test_c12_nothing_secret_is_said_while_it_works(
        self, server: StoreServer, storage: FsspecStorage, caplog: pytest.LogCaptureFixture
    ) -> None:
        metadata = segment_metadata(12, size=len(LOG))

        async def story() -> str:
            await storage.copy_log_segment_data(metadata, segment_data(LOG))
            with pytest.raises(RemoteStorageError) as failed:
                await storage.fetch_index(metadata, IndexType.TRANSACTION)
            return str(failed.value)

        with caplog.at_level(logging.DEBUG):
            said = run(storage, story()) + caplog.text
        for secret in server.secrets:
            assert secret not in said

    def test_c13_objects_are_listed_with_their_sizes(self, tier: TierFileSystem) -> None:
        keys = [f"listed/{number:04d}" for number in range(7)]

        async def story() -> list[tuple[str, int]]:
            for size, key in enumerate(keys):
                await tier.write_bytes(key, bytes(size))
            found = await tier.list("listed/")
            some = [each.key for each in await tier.list("listed/0003")]
            assert some == ["listed/0003"]
            assert await tier.list("nothing/there/") == []
            assert all(each.modified_ms is None or each.modified_ms > 0 for each in found)
            await tier.remove_all(keys)
            assert await tier.list("listed/") == []
            await tier.close()
            return [(each.key, each.size) for each in found]

        assert asyncio.run(story()) == [(key, size) for size, key in enumerate(keys)]

    async def test_c22_beginnings_of_keys_are_listed_once_each(self, tier: TierFileSystem) -> None:
        """Of 2,500 keys, so that a store of pages gives more than one of them."""
        keys = [f"t-0-id/{number:04d}-0-{part}.x" for number in range(500) for part in "abcde"]
        keys += ["t-1-id/0000-0-a.x", "t-1-id/0000-0-a.y", "t-1-id/none", "tt-0-id/0000-0-a.x"]

        async def write(key: str) -> None:
            await tier.write_bytes(key, b"")

        await in_parallel(keys, write, 16)
        assert await tier.list_beginnings("t-", "/") == ["t-0-id/", "t-1-id/"]
        assert await tier.list_beginnings("t-1-id/", ".") == ["t-1-id/0000-0-a."]
        stems = [f"{key[:-1]}" for key in keys if key.startswith("t-0-id/")]
        assert await tier.list_beginnings("t-0-id/", ".") == sorted(stems)
        assert await tier.list_beginnings("t-2-id/", ".") == []
        # A call has a deadline, and a busy machine may take long for thousands of files.
        for begin in range(0, len(keys), 250):
            await tier.remove_all(keys[begin : begin + 250])
        await tier.close()

    def test_c14_a_partition_is_removed_with_all_its_leftovers(
        self, server: StoreServer, storage: FsspecStorage
    ) -> None:
        metadata = segment_metadata(14, size=len(LOG))
        prefix = partition_prefix(metadata.topic_id_partition)
        tier = opened(server.location)

        async def story() -> None:
            await storage.copy_log_segment_data(metadata, segment_data(LOG))
            await tier.write_bytes(f"{prefix}/left.tmp", b"of an upload")
            for _ in range(2):
                await storage.delete_partition(metadata.topic_id_partition)
            assert await tier.list(prefix) == []
            await tier.close()

        run(storage, story())

    async def test_c15_an_object_is_written_over(self, tier: TierFileSystem) -> None:
        for content in (b"first", b"", b"and the last one"):
            await tier.write_bytes("over", content)
            assert await tier.read("over") == content
        assert await tier.read("over", 4, 7) == b"the"
        with pytest.raises(RemoteStorageError):
            await tier.read("over", 0, 1000)
        await tier.remove("over")
        await tier.close()

    async def test_c21_a_small_object_is_read_whole_and_a_large_one_is_not(
        self, tier: TierFileSystem
    ) -> None:
        """An index may have no entry, and of nothing there is no range."""
        for content in (b"", b"x", b"x" * 99, b"x" * 100):
            await tier.write_bytes("small", content)
            assert await tier.read_small("small", 100) == content
        await tier.write_bytes("small", b"x" * 101)
        with pytest.raises(OversizedObjectError, match="more than 100 bytes under small"):
            await tier.read_small("small", 100)
        await tier.remove("small")
        with pytest.raises(RemoteResourceNotFound):
            await tier.read_small("small", 100)
        await tier.close()

    async def test_c16_a_server_that_is_down_is_unreachable_and_never_empty(
        self, server: StoreServer
    ) -> None:
        tier = opened(server.location, deadline_s=8)

        await tier.write_bytes("kept", b"content")
        server.stop()
        try:
            for call in (
                lambda: tier.list(),
                lambda: tier.read("kept"),
                lambda: tier.write_bytes("new", b"1"),
                lambda: tier.remove("kept"),
            ):
                with pytest.raises(RemoteStorageError) as failed:
                    await call()
                assert failed.value.failure is Failure.UNREACHABLE
                assert failed.value.is_retriable
        finally:
            server.start()
            self.after_restart(server)
        # The same object, without anybody's doing.
        await tier.write_bytes("kept", b"again")
        assert await tier.read("kept") == b"again"
        assert [each.key for each in await tier.list("kept")] == ["kept"]
        await tier.remove("kept")
        await tier.close()

    async def test_c20_a_server_that_was_started_again_between_two_calls_is_not_noticed(
        self, server: StoreServer
    ) -> None:
        tier = opened(server.location)

        # Not `kept/...`: servers that keep objects as files may leave the folder of that name.
        await asyncio.gather(*(tier.write_bytes(f"restarted/{n}", b"1") for n in range(3)))
        for call in (
            lambda: tier.write_bytes("restarted/0", b"2"),
            lambda: tier.list("restarted/"),
        ):
            server.stop()
            server.start()
            self.after_restart(server)
            await call()
        await tier.write_bytes("restarted/0", b"3")
        assert await tier.read("restarted/0") == b"3"
        await tier.remove_folder("restarted")
        await tier.close()

    def after_restart(self, server: StoreServer) -> None:
        """What a server needs that forgets its buckets."""

    def test_c17_a_server_that_hangs_is_unreachable_within_the_deadline(
        self, server: StoreServer
    ) -> None:
        tier = opened(server.location, deadline_s=4)

        async def story() -> float:
            loop = asyncio.get_running_loop()
            patient = opened(server.location)
            await patient.write_bytes("kept", b"content")
            await patient.close()
            assert await tier.read("kept") == b"content"
            server.freeze()
            try:
                began = loop.time()
                with pytest.raises(RemoteStorageError, match=r"no answer within 4 s|timed out"):
                    await tier.read("kept", 0, 4)
                with pytest.raises(RemoteStorageError) as failed:
                    await tier.list()
                assert failed.value.failure is Failure.UNREACHABLE
                took = loop.time() - began
            finally:
                server.thaw()
            assert await opened_again(tier) == b"content"
            await tier.close()
            return took

        async def opened_again(tier: TierFileSystem) -> bytes:
            while True:
                try:
                    return await tier.read("kept")
                except RemoteStorageError:
                    # What a thawed server does first is answer those who have gone.
                    await asyncio.sleep(0.1)

        # Two calls, each with its own deadline; far from a library's half minute and more.
        assert asyncio.run(story()) < 20

    def test_c18_a_large_segment_takes_little_memory(self, server: StoreServer) -> None:
        arguments = [json.dumps(server.properties()), str(LARGE_SEGMENT_BYTES)]
        done = subprocess.run(
            [sys.executable, "-c", _LARGE_COPY, *arguments],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.returncode == 0, done.stderr
        before, after = map(int, done.stdout.split())
        assert after - before < MEMORY_BYTES_MAX

    async def test_c19_an_upload_that_is_given_up_leaves_nothing(
        self, tier: TierFileSystem
    ) -> None:
        size = 3 * len(_PIECE)
        with pytest.raises(
            RemoteStorageError, match="A file to be copied to the remote tier could not be read"
        ):
            await tier.write("given-up/object", size, FailingSlice)
        await tier.remove("given-up/object")
        assert await tier.list("given-up/") == []
        with pytest.raises(RemoteStorageError) as failed:
            await tier.read("given-up/object")
        assert failed.value.failure is Failure.NOT_FOUND
        await tier.close()


_PIECE = bytes(8 << 20)


class FailingSlice:
    """A local segment whose disk fails after the first piece."""

    def __init__(self, position: int, size: int) -> None:
        self._position = position
        self._size = size

    def read(self) -> bytes:
        if self._position:
            raise OSError(5, "Input/output error")
        return bytes(self._size)


class PatternSlice:
    """Bytes that are made when they are read, each page of its own kind."""

    def __init__(self, position: int, size: int) -> None:
        self._position = position
        self._size = size

    def read(self) -> bytes:
        return bytes([self._position // len(_PIECE) % 251]) * self._size


async def copy_large(properties: dict[str, str], size: int) -> tuple[int, int]:
    """Write and read back a large object; the peak of memory before and after, in bytes."""
    tier = opened(located(properties), deadline_s=60)
    await tier.write_bytes("large-first", b"all that is imported is imported now")
    before = peak_memory()
    await tier.write("large", size, PatternSlice)
    for position in range(0, size, 50 << 20):
        assert await tier.read("large", position, position + 10) == bytes(
            [position // len(_PIECE) % 251]
        ) * min(10, len(_PIECE) - position % len(_PIECE)), position
    after = peak_memory()
    await tier.remove_all(["large", "large-first"])
    await tier.close()
    return before, after


def peak_memory() -> int:
    """The most memory this process has had, in bytes."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
