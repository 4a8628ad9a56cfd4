"""Leader epochs and producers that are damaged in the tier never begin a replica's log."""

import pytest

from tierlog.storage.checkpoint import format_epochs
from tierlog.storage.producer.producer_entry import ProducerEntry
from tierlog.storage.producer.producer_snapshot import encode_snapshot
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.tiering.segments import segment_data, segment_metadata
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.remote_storage import Failure, IndexType, RemoteStorageError
from tierlog.tiering.store.file_system import TierFileSystem
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.object_keys import MANIFEST_SUFFIX, object_key
from tierlog.tiering.store.remote_url import RemoteUrl

SEGMENT = segment_metadata(1, size=100)
PLAUSIBLE = {
    IndexType.LEADER_EPOCH: format_epochs([(0, 0), (3, 1)]),
    IndexType.PRODUCER_SNAPSHOT: encode_snapshot([ProducerEntry(9, 4)]),
}
"""Sound contents, but not what was copied: of another segment, or with another digit."""


@pytest.mark.parametrize("index", PLAUSIBLE)
async def test_what_differs_from_what_was_copied_begins_no_replica(index: IndexType) -> None:
    location = RemoteUrl("memory://replicas")
    files, pool = SimulatedFiles(SimulatedDisk()), ThreadedPool(1, "test")
    objects = TierFileSystem(location, files, pool)
    storage = FsspecStorage(location, files, pool)
    await storage.copy_log_segment_data(SEGMENT, segment_data(bytes(100)))
    copied = await storage.fetch_index(SEGMENT, index)
    await objects.write_bytes(object_key(SEGMENT, index.value), PLAUSIBLE[index])
    with pytest.raises(RemoteStorageError, match="differ from what was copied") as damaged:
        await storage.fetch_index(SEGMENT, index)
    assert damaged.value.failure is Failure.BROKEN
    await objects.write_bytes(object_key(SEGMENT, index.value), copied)
    await objects.remove(object_key(SEGMENT, MANIFEST_SUFFIX))
    assert await storage.fetch_index(SEGMENT, index) == copied
    await storage.close()
