"""A transaction index that is damaged in the tier never makes aborted records look committed."""

import pytest

from tierlog.storage.segment.transaction_index import AbortedTxn
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.tiering.remote_partition import TXN_ENTRY
from tierlog.tests.tiering.segments import segment_data, segment_metadata
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.remote_storage import Failure, IndexType, RemoteStorageError
from tierlog.tiering.store.file_system import TierFileSystem
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.object_keys import MANIFEST_SUFFIX, object_key
from tierlog.tiering.store.remote_url import RemoteUrl

ABORTED = [AbortedTxn(7, 0, 9, 10), AbortedTxn(8, 12, 20, 21)]
INDEX = b"".join(TXN_ENTRY.pack(0, *txn) for txn in ABORTED)
SEGMENT = segment_metadata(1, size=100)
INDEX_KEY = object_key(SEGMENT, IndexType.TRANSACTION.value)
MANIFEST_KEY = object_key(SEGMENT, MANIFEST_SUFFIX)


class Tier:
    """A segment with two aborted transactions in a tier."""

    def __init__(self) -> None:
        location = RemoteUrl("memory://aborted")
        files, pool = SimulatedFiles(SimulatedDisk()), ThreadedPool(1, "test")
        self.objects = TierFileSystem(location, files, pool)
        self.storage = FsspecStorage(location, files, pool)

    async def start(self) -> None:
        data = segment_data(bytes(100), transaction_index=INDEX)
        await self.storage.copy_log_segment_data(SEGMENT, data)

    async def aborted(self) -> list[AbortedTxn]:
        content = await self.storage.fetch_index(SEGMENT, IndexType.TRANSACTION)
        return [AbortedTxn(*fields) for _, *fields in TXN_ENTRY.iter_unpack(content)]

    async def stop(self) -> None:
        await self.storage.close()


DAMAGES = {
    "cut at an entry": INDEX[: TXN_ENTRY.size],
    "cut to nothing": b"",
    "another transaction": INDEX[:-8] + b"\0" * 7 + b"\x14",
    "an entry too many": INDEX + TXN_ENTRY.pack(0, 9, 30, 40, 41),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_an_index_that_is_not_what_was_copied_is_an_error(damage: str) -> None:
    tier = Tier()
    await tier.start()
    assert await tier.aborted() == ABORTED
    await tier.objects.write_bytes(INDEX_KEY, DAMAGES[damage])
    with pytest.raises(RemoteStorageError, match=r"transaction index .* is damaged"):
        await tier.aborted()
    await tier.stop()


async def test_an_index_that_is_gone_is_an_error_and_not_an_empty_one() -> None:
    tier = Tier()
    await tier.start()
    await tier.objects.remove(INDEX_KEY)
    with pytest.raises(RemoteStorageError, match=r"transaction index .* is missing") as gone:
        await tier.aborted()
    # Not found would be taken for a segment without aborted transactions.
    assert gone.value.failure is Failure.BROKEN
    await tier.stop()


@pytest.mark.parametrize("manifest", [None, b"no manifest"])
async def test_without_its_manifest_a_sound_index_is_read_all_the_same(
    manifest: bytes | None,
) -> None:
    tier = Tier()
    await tier.start()
    if manifest is None:
        await tier.objects.remove(MANIFEST_KEY)
    else:
        await tier.objects.write_bytes(MANIFEST_KEY, manifest)
    assert await tier.aborted() == ABORTED
    await tier.stop()
