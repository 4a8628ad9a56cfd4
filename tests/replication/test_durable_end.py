"""A start never takes back what the metadata log had on the disk."""

import pytest

from tierlog.clients.record.batch import batches
from tierlog.replication.durable_end import DURABLE_END_FILE
from tierlog.replication.metadata_log import METADATA_PARTITION
from tierlog.storage.log_dir import LogDirError
from tierlog.tests.replication.node import DATA, create, open_controller, registration
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

FOLDER = f"{DATA}/{METADATA_PARTITION}"
LOG = f"{FOLDER}/{0:020d}.log"
NOTE = f"{FOLDER}/{DURABLE_END_FILE}"


def killed() -> SimulatedFiles:
    """What a controller that made three topics leaves without a stop."""
    files = SimulatedFiles(SimulatedDisk())

    async def story(loop: SimulatedLoop) -> None:
        controller = open_controller(loop, files)
        controller.start(registration())
        for name in "abc":
            await create(controller, name)

    simulate(story)
    return files


def topics_after_start(files: SimulatedFiles) -> set[str]:
    async def story(loop: SimulatedLoop) -> set[str]:
        controller = open_controller(loop, files)
        controller.start(registration())
        return {name for name in "abc" if name in controller.image.topics_by_name}

    return simulate(story)


def flip(files: SimulatedFiles, place: int) -> None:
    content = bytearray(files.read(LOG))
    content[place] ^= 1
    files.atomic_replace(LOG, bytes(content))


def end_of_batch(files: SimulatedFiles, number: int) -> int:
    sizes = [batch.size_in_bytes for batch in batches(files.read(LOG))]
    return sum(sizes[:number] if number >= 0 else sizes[: len(sizes) + number + 1])


def all_files(files: SimulatedFiles) -> dict[str, bytes]:
    return {name: files.read(f"{FOLDER}/{name}") for name in files.listdir(FOLDER)}


def test_a_flipped_bit_in_what_was_flushed_refuses_the_start_and_changes_nothing() -> None:
    for number in (1, 2, -2, -1):
        files = killed()
        flip(files, end_of_batch(files, number) - 1)
        before = all_files(files)
        with pytest.raises(LogDirError, match="would be lost: restore"):
            topics_after_start(files)
        assert all_files(files) == before


def test_a_base_offset_that_the_next_batch_proves_refuses_nothing() -> None:
    files = killed()
    flip(files, end_of_batch(files, 2) + 7)
    assert topics_after_start(files) == set("abc")


def test_a_base_offset_that_nothing_proves_refuses_the_start() -> None:
    files = killed()
    flip(files, end_of_batch(files, -2) + 7)
    with pytest.raises(LogDirError, match="is damaged"):
        topics_after_start(files)


def test_a_log_that_is_gone_or_shorter_than_it_was_refuses_the_start() -> None:
    files = killed()
    content = files.read(LOG)
    files.atomic_replace(LOG, content[: end_of_batch(files, -2)])
    with pytest.raises(LogDirError, match="is damaged"):
        topics_after_start(files)
    files.remove(LOG)
    with pytest.raises(LogDirError, match="is damaged at offset 0"):
        topics_after_start(files)


def test_a_torn_end_behind_what_was_flushed_is_cut() -> None:
    files = killed()
    content = files.read(LOG)
    files.atomic_replace(LOG, content + content[:70])
    assert topics_after_start(files) == set("abc")


@pytest.mark.parametrize("note", [None, b"", b"garbage", b"7 00000000\n", b"\xff\x00 \n"])
def test_without_a_whole_note_a_damaged_log_is_cut(note: bytes | None) -> None:
    files = killed()
    flip(files, end_of_batch(files, -1) - 1)
    if note is None:
        files.remove(NOTE)
    else:
        files.atomic_replace(NOTE, note)
    assert topics_after_start(files) == set("ab")
