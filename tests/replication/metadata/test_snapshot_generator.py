"""A broker that takes snapshots: when, of what, and what it deletes afterwards."""

import asyncio
import errno

import pytest

from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.snapshot_format import SnapshotId
from tierlog.replication.metadata.snapshot_generator import GENERATION
from tierlog.tests.replication.node import create, delete
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.loop import SimulatedLoop

from .snapshot_lives import DIRECTORY, NEVER, OFTEN, Life, life_on, live, many_topics


def lasting(image: ClusterImage) -> object:
    """What a restart does not change: it registers the broker anew, with new leader epochs."""
    topics = {name: topic.topic_id for name, topic in image.topics_by_name.items()}
    return topics, image.features, image.deleted_topics


async def test_no_snapshot_is_taken_before_one_is_due(loop: SimulatedLoop) -> None:
    async with life_on(loop, SimulatedDisk(), NEVER) as life:
        await many_topics(life, 30)
        await asyncio.sleep(3_600)
        assert not life.offsets_of(".checkpoint")


async def test_so_many_bytes_of_records_bring_a_snapshot_of_a_committed_image(
    loop: SimulatedLoop,
) -> None:
    async with life_on(loop, SimulatedDisk(), OFTEN) as life:
        await many_topics(life, 100)
        snapshots = life.controller.metadata_log.snapshots
        assert len(snapshots.ids) > 2
        assert snapshots.bytes_after_latest < 2_000
        assert life.generator.latest_bytes == snapshots.size(snapshots.ids[-1])
        assert life.generator.latest_age_ms < 3_000
        assert all(each.offset <= life.controller.image.offset + 1 for each in snapshots.ids)


async def test_time_brings_a_snapshot_if_something_was_written(loop: SimulatedLoop) -> None:
    hourly = NEVER._replace(max_snapshot_interval_ms=3_600_000)
    async with life_on(loop, SimulatedDisk(), hourly) as life:
        await create(life.controller, "t")
        await asyncio.sleep(3_000)
        assert not life.offsets_of(".checkpoint")
        await asyncio.sleep(700)
        (first,) = life.offsets_of(".checkpoint")
        await asyncio.sleep(7_200)
        assert life.offsets_of(".checkpoint") == [first]
        await create(life.controller, "u")
        await asyncio.sleep(61)
        assert len(life.offsets_of(".checkpoint")) == 2


def test_a_start_goes_on_from_the_snapshot() -> None:
    disk = SimulatedDisk()
    images: list[ClusterImage] = []

    async def first(life: Life) -> None:
        await many_topics(life, 60)
        await delete(life.controller, "t3")
        await create(life.controller, "t3")
        images.append(life.controller.image)

    async def second(life: Life) -> None:
        images.append(life.controller.image)
        assert life.controller.metadata_log.snapshots.ids[-1].offset > 60

    live(disk, first, OFTEN)
    live(disk, second, NEVER)
    assert lasting(images[0]) == lasting(images[1])
    assert len(images[1].deleted_topic_ids) == 1


async def test_retention_by_size_leaves_the_newest_snapshot_and_the_log_after_it(
    loop: SimulatedLoop,
) -> None:
    small = OFTEN._replace(retention_bytes=6_000)
    async with life_on(loop, SimulatedDisk(), small) as life:
        await many_topics(life, 200)
        await asyncio.sleep(61)
        snapshots = life.controller.metadata_log.snapshots
        assert len(life.offsets_of(".log")) <= 4
        assert life.offsets_of(".log")[0] > 100
        assert life.offsets_of(".log")[0] <= snapshots.ids[0].offset
        assert len(snapshots.ids) <= 2
        await asyncio.sleep(120)
        assert not life.offsets_of(".deleted")
        assert len(life.offsets_of(".checkpoint")) == len(snapshots.ids)


async def test_retention_by_time_goes_by_the_last_record_in_a_snapshot(loop: SimulatedLoop) -> None:
    timed = OFTEN._replace(retention_ms=100_000)
    async with life_on(loop, SimulatedDisk(), timed) as life:
        await many_topics(life, 100)
        snapshots = life.controller.metadata_log.snapshots
        count = len(snapshots.ids)
        await asyncio.sleep(50)
        assert len(snapshots.ids) == count > 2
        await asyncio.sleep(120)
        # The last one stays, however old it is.
        assert len(snapshots.ids) == 1
        assert life.controller.metadata_log.snapshots.earliest == snapshots.latest


async def test_a_single_snapshot_is_never_deleted(loop: SimulatedLoop) -> None:
    tiny = NEVER._replace(max_snapshot_interval_ms=1_000, retention_bytes=0, retention_ms=0)
    async with life_on(loop, SimulatedDisk(), tiny) as life:
        await create(life.controller, "t")
        await asyncio.sleep(600)
        assert len(life.offsets_of(".checkpoint")) == 1


def test_the_log_start_does_not_move_to_a_snapshot_that_has_become_unreadable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()

    async def first(life: Life) -> None:
        await many_topics(life, 40)
        for offset in life.offsets_of(".checkpoint")[1:]:
            (path,) = [
                name for name in life.files.listdir(DIRECTORY) if name.startswith(f"{offset:020d}-")
            ]
            content = bytearray(life.files.read(f"{DIRECTORY}/{path}"))
            content[-100] ^= 1
            life.files.atomic_replace(f"{DIRECTORY}/{path}", bytes(content))

    async def second(life: Life) -> None:
        await asyncio.sleep(200)
        assert life.offsets_of(".log")[0] == 0
        assert len(life.controller.image.topics_by_name) == 40

    live(disk, first, OFTEN)
    caplog.clear()
    live(disk, second, NEVER._replace(retention_bytes=0))
    assert "is damaged and is not used" in caplog.text


def test_neither_the_disk_nor_the_work_of_a_start_grows_with_the_restarts() -> None:
    """Without snapshots each start would replay all starts before it, and the disk would fill."""
    config = OFTEN._replace(max_record_bytes_between_snapshots=20_000, retention_bytes=50_000)
    disk = SimulatedDisk()
    sizes: list[int] = []
    replayed: list[int] = []

    async def first(life: Life) -> None:
        await many_topics(life, 20)

    async def again(life: Life) -> None:
        latest = life.controller.metadata_log.snapshots.latest
        replayed.append(life.controller.image.offset - (0 if latest is None else latest.offset))
        await asyncio.sleep(61)
        names = life.files.listdir(DIRECTORY)
        # The indexes of an active segment have their full size in advance.
        counted = [name for name in names if not name.endswith("index")]
        sizes.append(sum(life.files.size(f"{DIRECTORY}/{name}") for name in counted))

    live(disk, first, config)
    for _ in range(300):
        live(disk, again, config)
    assert max(sizes[50:150]) >= max(sizes[150:]) * 0.9
    assert max(sizes) < 100_000
    assert max(replayed[150:]) <= max(replayed[:150]) * 1.1


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.WRITE, Kind.FLUSH, Kind.RENAME])
async def test_a_full_disk_costs_a_snapshot_and_nothing_else(
    loop: SimulatedLoop, kind: Kind
) -> None:
    disk = SimulatedDisk()
    async with life_on(loop, disk, OFTEN) as life:
        await many_topics(life, 4)
        disk.faults.append(Fault(kind, errno.ENOSPC, suffix=".part"))
        await many_topics(life, 20, "u")
        await asyncio.sleep(10)
        assert life.supervisor.failures[GENERATION] == 1
        assert not [each for each in life.files.listdir(DIRECTORY) if each.endswith(".part")]
        await many_topics(life, 40, "v")
        await asyncio.sleep(10)
        assert life.offsets_of(".checkpoint")


async def test_a_disk_too_full_for_a_snapshot_still_gets_its_deleted_files_back(
    loop: SimulatedLoop,
) -> None:
    disk = SimulatedDisk()
    async with life_on(loop, disk, OFTEN._replace(retention_bytes=6000)) as life:
        await many_topics(life, 100)
        assert life.offsets_of(".deleted")
        for _ in range(100):
            disk.faults.append(Fault(Kind.CREATE, errno.ENOSPC, suffix=".part"))
        await many_topics(life, 40, "u")
        await asyncio.sleep(200)
        assert life.supervisor.has_failed(GENERATION)
        assert not life.offsets_of(".deleted")


def test_a_broker_that_is_stopped_soon_after_each_start_still_gets_its_snapshots() -> None:
    config = OFTEN._replace(max_record_bytes_between_snapshots=20_000, retention_bytes=50_000)
    disk = SimulatedDisk()
    replayed: list[int] = []

    async def first(life: Life) -> None:
        await many_topics(life, 20)

    async def again(life: Life) -> None:
        latest = life.controller.metadata_log.snapshots.latest
        replayed.append(life.controller.image.offset - (0 if latest is None else latest.offset))

    live(disk, first, config)
    for _ in range(100):
        live(disk, again, config)
    assert max(replayed[50:]) <= max(replayed[:50])


async def test_a_stop_does_not_wait_for_a_disk_that_takes_no_snapshot(loop: SimulatedLoop) -> None:
    disk = SimulatedDisk()
    async with life_on(loop, disk, OFTEN) as life:
        disk.faults += [Fault(Kind.CREATE, errno.ENOSPC, suffix=".part") for _ in range(100)]
        await many_topics(life, 40)
        assert life.supervisor.has_failed(GENERATION)
        began = life.loop.time()
        await life.generator.stop()
        assert life.loop.time() - began < 1


def test_a_snapshot_that_was_being_written_at_the_stop_is_finished() -> None:
    disk = SimulatedDisk()

    async def story(life: Life) -> None:
        for number in range(30):
            await create(life.controller, f"t{number}")
        while not [each for each in life.files.listdir(DIRECTORY) if each.endswith(".part")]:
            await create(life.controller, f"u{life.loop.time()}")

    live(disk, story, OFTEN)
    live(disk, lambda life: _one_snapshot(life), NEVER)


async def _one_snapshot(life: Life) -> None:
    assert life.offsets_of(".checkpoint")
    assert not [each for each in life.files.listdir(DIRECTORY) if each.endswith(".part")]
    assert all(isinstance(each, SnapshotId) for each in life.controller.metadata_log.snapshots.ids)
