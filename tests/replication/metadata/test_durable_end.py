"""A start never takes back what the metadata log had on the disk."""

import pytest

from tierlog.clients.record.batch import batches
from tierlog.clients.record.checksum import crc32c
from tierlog.replication.metadata.durable_end import DURABLE_END_FILE
from tierlog.replication.metadata.metadata_log import METADATA_PARTITION, open_metadata_log
from tierlog.replication.raft.election_state import (
    QUORUM_STATE_FILE,
    ElectionState,
    read_election_state,
    write_election_state,
)
from tierlog.storage.directory.log_dir import LogDir, LogDirError
from tierlog.tests.replication.node import DATA, NODE_ID, create, open_controller, registration
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
        with pytest.raises(LogDirError, match=r"would be lost\. Restore"):
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


def test_a_log_that_was_closed_is_not_cut_either() -> None:
    files = killed()
    content = files.read(LOG)
    files.atomic_replace(LOG, content[: end_of_batch(files, -2) + 9])
    before = all_files(files)
    with pytest.raises(LogDirError, match=r"would be lost\. Restore"):
        open_metadata_log(LogDir(files, DATA), NODE_ID, 0, had_clean_shutdown=True)
    assert all_files(files) == before


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


def put(view: memoryview, base_offset: int, epoch: int) -> bytes:
    """A batch at other offsets, of another epoch; neither is under its checksum."""
    content = bytearray(view)
    content[:8] = base_offset.to_bytes(8, "big")
    content[12:16] = epoch.to_bytes(4, "big")
    return bytes(content)


def led_by_kafka(files: SimulatedFiles, epoch: int = 7) -> None:
    """What Apache Kafka leaves that has cut the last topic off, led, and was killed.

    It knows no `durable-end`. A real one is asked in `tests/conformance`.
    """
    sound = list(batches(files.read(LOG)))
    kept = sound[:-1]
    end = kept[-1].next_offset
    election = next(batch for batch in sound if batch.is_control)
    files.atomic_replace(
        LOG, b"".join([*(each.view for each in kept), put(election.view, end, epoch)])
    )
    state = ElectionState(epoch, 1, voter_ids=(1,))
    write_election_state(files, f"{FOLDER}/{QUORUM_STATE_FILE}", state, 0)


def test_a_log_that_another_has_cut_and_led_since_is_taken_as_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = killed()
    led_by_kafka(files)
    assert topics_after_start(files) == set("ab")
    (message,) = (each for each in caplog.messages if "has since led it in epoch 7" in each)
    assert message.startswith(f"The metadata log in {FOLDER} ends at offset ")


def test_a_log_that_another_has_led_without_cutting_it_is_still_protected() -> None:
    files = killed()
    sound = list(batches(files.read(LOG)))
    election = next(batch for batch in sound if batch.is_control)
    end = sound[-1].next_offset
    files.atomic_replace(LOG, files.read(LOG) + put(election.view, end, 7))
    state = ElectionState(7, 1, voter_ids=(1,))
    write_election_state(files, f"{FOLDER}/{QUORUM_STATE_FILE}", state, 0)
    flip(files, end_of_batch(files, 2) - 1)
    with pytest.raises(LogDirError, match=r"would be lost\. Restore"):
        topics_after_start(files)


@pytest.mark.parametrize("number", range(5))
def test_a_flipped_epoch_beside_other_damage_is_nobody_elses_leadership(number: int) -> None:
    """No checksum covers the epoch of a batch."""
    files = killed()
    flip(files, end_of_batch(files, -1) - 1)
    at = end_of_batch(files, number)
    flip(files, at + 13)
    with pytest.raises(LogDirError, match=r"would be lost\. Restore"):
        topics_after_start(files)


def test_a_later_epoch_that_the_quorum_does_not_know_is_damage() -> None:
    files = killed()
    state = read_election_state(files, f"{FOLDER}/{QUORUM_STATE_FILE}")
    led_by_kafka(files)
    write_election_state(files, f"{FOLDER}/{QUORUM_STATE_FILE}", state, 0)
    with pytest.raises(LogDirError, match=r"would be lost\. Restore"):
        topics_after_start(files)


def test_a_note_of_before_epochs_were_noted_protects_as_it_did() -> None:
    files = killed()
    text = files.read(NOTE).split()[0]
    files.atomic_replace(NOTE, b"%s %08x\n" % (text, crc32c(text)))
    led_by_kafka(files)
    with pytest.raises(LogDirError, match=r"would be lost\. Restore"):
        topics_after_start(files)
