"""Files in the metadata log's directory that look like snapshots, and are none of this log's."""

import asyncio

import pytest

from tierlog.replication.metadata.metadata_log_config import MetadataLogConfig
from tierlog.replication.metadata.metadata_records import TopicRecord
from tierlog.replication.metadata.metadata_snapshots import MetadataSnapshots
from tierlog.replication.metadata.snapshot_format import SnapshotId, snapshot_batches
from tierlog.replication.raft.election_state import QUORUM_STATE_FILE
from tierlog.storage.directory.log_dir import LogDirError
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

from .opened_metadata import DIRECTORY, Metadata, id_of
from .snapshot_lives import NEVER, OFTEN, Life, live, many_topics


def next_life(files: SimulatedFiles, *names: str) -> Metadata:
    """A start that creates topics and stops."""
    metadata = Metadata(files)
    metadata.log.become_leader(0)
    metadata.create(*names)
    metadata.log.close(0)
    return metadata


def put(files: SimulatedFiles, snapshot_id: SnapshotId) -> None:
    """Add a complete snapshot of another log, which has one topic."""
    topic = TopicRecord(name="foreign", topic_id=id_of("foreign"))
    content = snapshot_batches(snapshot_id, [topic], last_timestamp_ms=0, now_ms=0)
    files.atomic_replace(f"{DIRECTORY}/{snapshot_id}.checkpoint", b"".join(content))


@pytest.mark.parametrize("suffix", [" (copy)", ".bak", "-0"])
def test_a_copy_under_another_name_is_not_a_snapshot(led: Metadata, suffix: str) -> None:
    led.create("a")
    first = led.take_snapshot()
    led.create("b")
    second = led.take_snapshot()
    content = led.files.read(led.path(first))
    led.files.atomic_replace(f"{DIRECTORY}/{first}{suffix}.checkpoint", content)
    led.cut_before(second)
    again = Metadata(led.files)
    assert again.log.snapshots.ids == (second,)
    assert led.files.exists(f"{DIRECTORY}/{first}{suffix}.checkpoint")


@pytest.mark.parametrize("suffix", [".checkpoint", ".checkpoint.part", ".checkpoint.deleted"])
def test_a_directory_is_not_a_snapshot(led: Metadata, suffix: str) -> None:
    led.create("a")
    taken = led.take_snapshot()
    led.files.mkdirs(f"{DIRECTORY}/{SnapshotId(taken.offset + 1, 1)}{suffix}")
    assert next_life(led.files, "b").log.snapshots.ids == (taken,)


@pytest.mark.parametrize("snapshot_id", [SnapshotId(0, 5), SnapshotId(1 << 63, 1)])
def test_a_snapshot_of_no_offset_of_a_log_is_left_alone(
    files: SimulatedFiles, led: Metadata, snapshot_id: SnapshotId
) -> None:
    led.create("a")
    put(files, snapshot_id)
    assert not MetadataSnapshots(files, DIRECTORY).ids
    assert next_life(files, "b").topics == ["a", "b"]
    assert next_life(files, "c").topics == ["a", "b", "c"]


def test_retention_ends_whatever_lies_beside_the_snapshots() -> None:
    disk = SimulatedDisk()

    async def first(life: Life) -> None:
        await many_topics(life, 40)
        names = life.files.listdir(DIRECTORY)
        (oldest, *_) = [name for name in names if name.endswith(".checkpoint")]
        path = f"{DIRECTORY}/{oldest}"
        copy = path.replace(".checkpoint", " (copy).checkpoint")
        life.files.atomic_replace(copy, life.files.read(path))

    async def second(life: Life) -> None:
        await asyncio.sleep(200)
        assert len(life.controller.metadata_log.snapshots.ids) == 1

    config: MetadataLogConfig = NEVER._replace(retention_bytes=0)
    live(disk, first, OFTEN)
    live(disk, second, config)


def test_a_snapshot_of_an_epoch_that_no_leader_has_had_stops_the_start(
    files: SimulatedFiles, led: Metadata
) -> None:
    led.create("a")
    led.create("b")
    put(files, SnapshotId(3, 900))
    with pytest.raises(LogDirError, match=r"epoch 900.* of another cluster"):
        Metadata(files)
    files.remove(f"{DIRECTORY}/{SnapshotId(3, 900)}.checkpoint")
    assert next_life(files, "c").topics == ["a", "b", "c"]


def test_without_its_quorum_state_the_epochs_rise_above_those_of_the_log(
    files: SimulatedFiles, led: Metadata
) -> None:
    led.create("a")
    epoch = next_life(files, "b").log.epoch
    files.remove(f"{DIRECTORY}/{QUORUM_STATE_FILE}")
    again = next_life(files, "c")
    assert again.log.epoch == epoch + 1
    assert again.topics == ["a", "b", "c"]


def test_without_its_quorum_state_the_epochs_rise_above_those_of_the_snapshots(
    files: SimulatedFiles, led: Metadata
) -> None:
    """Or the next start would restart the log at the snapshot, which has a later epoch."""
    put(files, SnapshotId(3, 900))
    files.remove(f"{DIRECTORY}/{QUORUM_STATE_FILE}")
    assert next_life(files, "c").topics == ["c", "foreign"]
    again = next_life(files, "d")
    assert again.topics == ["c", "d", "foreign"]
    assert again.log.epoch == 902


def test_a_log_never_goes_on_below_the_end_of_its_snapshot(
    files: SimulatedFiles, led: Metadata
) -> None:
    """The records of a cut-off leader may be of a later epoch than the snapshot received after."""
    led.create("a")
    next_life(files, "b")
    put(files, SnapshotId(1_000, 1))
    first = next_life(files, "c")
    assert first.log.end_offset > 1_000
    assert next_life(files, "d").topics == ["c", "d", "foreign"]
