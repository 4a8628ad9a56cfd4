"""What every remote storage manager must do, as tests that a store joins by making one fixture.

The cases are numbered C1 to C10; `docs` refer to them by number.
"""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

import pytest

from tierlog.tests.tiering.segments import segment_data, segment_metadata
from tierlog.tiering.remote_storage import IndexType, RemoteResourceNotFound, RemoteStorageManager
from tierlog.tiering.store.fsspec_storage import CHUNK_BYTES

T = TypeVar("T")
LOG = bytes(range(256)) * 4


def run(storage: RemoteStorageManager, work: Coroutine[None, None, T]) -> T:
    """Run a story in a loop of its own; connections live no longer than their loop."""

    async def story() -> T:
        try:
            return await work
        finally:
            await storage.close()

    return asyncio.run(story())


class StorageConformance:
    """Subclasses give `storage`; each case runs against it."""

    @pytest.fixture
    def storage(self) -> RemoteStorageManager:
        raise NotImplementedError

    def test_c1_a_copied_segment_is_read_back_whole(self, storage: RemoteStorageManager) -> None:
        metadata = segment_metadata(1, size=len(LOG))

        async def story() -> bytes:
            assert await storage.copy_log_segment_data(metadata, segment_data(LOG)) is None
            return await storage.fetch_log_segment(metadata, 0, len(LOG) - 1)

        assert run(storage, story()) == LOG

    def test_c2_ranges_are_inclusive_and_clamped(self, storage: RemoteStorageManager) -> None:
        metadata = segment_metadata(2, size=len(LOG))

        async def story() -> list[bytes]:
            await storage.copy_log_segment_data(metadata, segment_data(LOG))
            ranges = [(0, 0), (10, 19), (1000, 9999), (1023, 1023), (1024, 2000), (5, 4)]
            return [await storage.fetch_log_segment(metadata, *each) for each in ranges]

        assert run(storage, story()) == [LOG[:1], LOG[10:20], LOG[1000:], LOG[-1:], b"", b""]

    def test_c3_each_index_comes_back(self, storage: RemoteStorageManager) -> None:
        metadata = segment_metadata(3, size=len(LOG))
        data = segment_data(LOG, transaction_index=b"aborted")

        async def story() -> dict[IndexType, bytes]:
            await storage.copy_log_segment_data(metadata, data)
            return {each: await storage.fetch_index(metadata, each) for each in IndexType}

        assert run(storage, story()) == data.indexes()

    def test_c4_a_segment_without_aborted_transactions_has_no_such_index(
        self, storage: RemoteStorageManager
    ) -> None:
        metadata = segment_metadata(4, size=len(LOG))

        async def story() -> None:
            await storage.copy_log_segment_data(metadata, segment_data(LOG))
            with pytest.raises(RemoteResourceNotFound):
                await storage.fetch_index(metadata, IndexType.TRANSACTION)

        run(storage, story())

    def test_c5_what_was_never_copied_is_not_found(self, storage: RemoteStorageManager) -> None:
        metadata = segment_metadata(5, size=len(LOG))

        async def story() -> None:
            with pytest.raises(RemoteResourceNotFound):
                await storage.fetch_log_segment(metadata, 0, 10)
            with pytest.raises(RemoteResourceNotFound):
                await storage.fetch_index(metadata, IndexType.OFFSET)

        run(storage, story())

    def test_c6_a_deleted_segment_is_gone_with_all_its_parts(
        self, storage: RemoteStorageManager
    ) -> None:
        metadata = segment_metadata(6, size=len(LOG))

        async def story() -> None:
            data = segment_data(LOG, transaction_index=b"aborted")
            await storage.copy_log_segment_data(metadata, data)
            await storage.delete_log_segment_data(metadata)
            for each in IndexType:
                with pytest.raises(RemoteResourceNotFound):
                    await storage.fetch_index(metadata, each)
            with pytest.raises(RemoteResourceNotFound):
                await storage.fetch_log_segment(metadata, 0, 10)

        run(storage, story())

    def test_c7_deletion_may_be_repeated(self, storage: RemoteStorageManager) -> None:
        metadata = segment_metadata(7, size=len(LOG))

        async def story() -> None:
            await storage.copy_log_segment_data(metadata, segment_data(LOG))
            for _ in range(3):
                await storage.delete_log_segment_data(metadata)

        run(storage, story())

    def test_c8_two_copies_of_the_same_offsets_do_not_touch_each_other(
        self, storage: RemoteStorageManager
    ) -> None:
        first, second = (segment_metadata(number, size=len(LOG)) for number in (81, 82))

        async def story() -> bytes:
            await storage.copy_log_segment_data(first, segment_data(LOG))
            await storage.copy_log_segment_data(second, segment_data(LOG[::-1]))
            await storage.delete_log_segment_data(first)
            return await storage.fetch_log_segment(second, 0, len(LOG))

        assert run(storage, story()) == LOG[::-1]

    def test_c9_a_segment_larger_than_one_part_arrives_whole(
        self, storage: RemoteStorageManager
    ) -> None:
        log = bytes(range(251)) * (2 * CHUNK_BYTES // 251 + 1000)
        metadata = segment_metadata(9, size=len(log))

        async def story() -> tuple[bytes, bytes]:
            await storage.copy_log_segment_data(metadata, segment_data(log))
            seam = await storage.fetch_log_segment(metadata, CHUNK_BYTES - 5, CHUNK_BYTES + 4)
            return seam, await storage.fetch_log_segment(metadata, 0, len(log))

        seam, whole = run(storage, story())
        assert seam == log[CHUNK_BYTES - 5 : CHUNK_BYTES + 5]
        assert whole == log

    def test_c10_many_calls_at_once_do_not_disturb_each_other(
        self, storage: RemoteStorageManager
    ) -> None:
        segments = [segment_metadata(100 + number, size=64) for number in range(12)]

        async def story() -> list[bytes]:
            await asyncio.gather(
                *(
                    storage.copy_log_segment_data(each, segment_data(bytes([number]) * 64))
                    for number, each in enumerate(segments)
                )
            )
            return await asyncio.gather(
                *(storage.fetch_log_segment(each, 0, 63) for each in segments)
            )

        assert run(storage, story()) == [bytes([number]) * 64 for number in range(12)]
