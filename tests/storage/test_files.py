"""The door to the disk keeps its promises on a real file system."""

import mmap
import os
import socket
from pathlib import Path

import pytest

from tierlog.storage.files import FileRegion, OsFiles
from tierlog.storage.memory_map import map_shared

FILES = OsFiles()


def test_a_region_outlives_its_handle_and_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "segment")
    handle = FILES.open(path, create=True)
    handle.write_at(0, b"0123456789")
    region = handle.region(2, 5)
    handle.close()
    FILES.remove(path)
    assert region.read() == b"23456"
    assert sent(region, 3) == b"234"


def sent(region: FileRegion, size: int) -> bytes:
    """What arrives of the first `size` bytes of a region, which a socket takes at once."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        count = region.send_to(ours.fileno(), size)
        return theirs.recv(count, socket.MSG_WAITALL)


def test_a_region_is_sent_wherever_it_begins(tmp_path: Path) -> None:
    handle = FILES.open(str(tmp_path / "segment"), create=True)
    content = os.urandom(3 * mmap.PAGESIZE)
    handle.write_at(0, content)
    for position in (0, 1, mmap.PAGESIZE - 1, mmap.PAGESIZE, 2 * mmap.PAGESIZE + 5):
        region = handle.region(position, mmap.PAGESIZE - 5)
        assert sent(region, region.nbytes) == content[position : position + region.nbytes]


def test_a_socket_takes_no_more_of_a_region_than_it_has_room_for(tmp_path: Path) -> None:
    handle = FILES.open(str(tmp_path / "segment"), create=True)
    handle.write_at(0, bytes(8 << 20))
    region = handle.region(0, 8 << 20)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        assert 0 < region.send_to(ours.fileno(), region.nbytes) < region.nbytes
        with pytest.raises(BlockingIOError):
            while True:
                region.send_to(ours.fileno(), region.nbytes)


def test_a_region_of_a_file_that_was_cut_is_not_sent(tmp_path: Path) -> None:
    handle = FILES.open(str(tmp_path / "segment"), create=True)
    handle.write_at(0, bytes(100))
    region = handle.region(50, 50)
    handle.truncate(50)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(OSError, match="ends before its last byte"):
        region.send_to(ours.fileno(), 50)


def open_descriptors(path: Path) -> int:
    """How many of this process's descriptors are of that file."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    # The listing's own descriptor is closed by now.
    return sum(os.path.samefile(link, path) for link in links if os.path.exists(link))


def test_the_descriptor_closes_with_its_last_region(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    handle = FILES.open(str(path), create=True)
    region = handle.region(0, 0)
    handle.close()
    assert open_descriptors(path) == 1
    del region
    assert open_descriptors(path) == 0


def test_a_slice_of_a_region_counts_from_the_region(tmp_path: Path) -> None:
    handle = FILES.open(str(tmp_path / "segment"), create=True)
    handle.write_at(0, b"0123456789")
    part = handle.region(2, 6).slice(1, 3)
    assert isinstance(part, FileRegion)
    assert (part.position, part.nbytes, part.read()) == (3, 3, b"345")


def test_a_read_past_the_end_is_short(tmp_path: Path) -> None:
    handle = FILES.open(str(tmp_path / "segment"), create=True)
    handle.write_at(0, b"abc")
    assert handle.pread(1, 100) == b"bc"
    assert handle.pread(3, 100) == b""


def test_a_file_that_is_not_there_is_not_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FILES.open(str(tmp_path / "absent"))


def test_a_closed_handle_cannot_be_used(tmp_path: Path) -> None:
    handle = FILES.open(str(tmp_path / "segment"), create=True)
    handle.close()
    handle.close()
    with pytest.raises(OSError, match="closed"):
        handle.pread(0, 1)


@pytest.mark.parametrize("durable", [True, False])
def test_replacing_leaves_the_new_content_and_no_temporary(tmp_path: Path, durable: bool) -> None:
    path = str(tmp_path / "checkpoint")
    FILES.atomic_replace(path, b"old", durable=durable)
    FILES.atomic_replace(path, b"new", durable=durable)
    assert FILES.read(path) == b"new"
    assert FILES.listdir(str(tmp_path)) == ["checkpoint"]


def test_a_mapped_file_grows_shrinks_and_shows_its_stores(tmp_path: Path) -> None:
    path = str(tmp_path / "index")
    mapped = FILES.map(path, 3 * mmap.PAGESIZE)
    assert (mapped.capacity, FILES.size(path)) == (3 * mmap.PAGESIZE, 3 * mmap.PAGESIZE)
    for position in (0, mmap.PAGESIZE - 4, 2 * mmap.PAGESIZE):
        mapped.write_at(position, b"12345678")
    mapped.resize(mmap.PAGESIZE + 8)
    assert FILES.size(path) == mmap.PAGESIZE + 8
    assert bytes(mapped.buffer[mmap.PAGESIZE - 4 : mmap.PAGESIZE + 4]) == b"12345678"
    mapped.flush()
    mapped.resize(0)
    assert (bytes(mapped.buffer), FILES.size(path)) == (b"", 0)
    mapped.resize(16)
    mapped.write_at(8, b"12345678")
    mapped.close()
    assert FILES.read(path) == bytes(8) + b"12345678"


def test_mapping_keeps_what_a_longer_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"x" * 40)
    mapped = FILES.map(str(path), 16)
    assert mapped.capacity == 40
    mapped.close()


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = FILES.lock(path)
    with pytest.raises(BlockingIOError):
        FILES.lock(path)
    held.release()
    FILES.lock(path).release()


def test_removing_a_tree_takes_everything_and_forgives_absence(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"x")
    FILES.remove_tree(str(tmp_path / "a"))
    FILES.remove_tree(str(tmp_path / "a"))
    assert FILES.listdir(str(tmp_path)) == []


def test_the_volume_says_how_much_room_it_has(tmp_path: Path) -> None:
    assert 0 < FILES.usable_bytes(str(tmp_path)) <= FILES.total_bytes(str(tmp_path))


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _mappings_of(path: str) -> int:
    with open("/proc/self/maps") as file:
        return sum(line.rstrip().endswith(path) for line in file)


def test_a_mapped_index_keeps_no_file_open(tmp_path: Path) -> None:
    before = _descriptors()
    mapped = [FILES.map(str(tmp_path / f"{at}.index"), 1 << 16) for at in range(50)]
    for each in mapped:
        each.write_at(0, b"12345678")
        each.resize(16)
        each.write_at(8, b"12345678")
        each.flush()
    assert _descriptors() == before
    assert all(_mappings_of(str(tmp_path / f"{at}.index")) == 1 for at in range(50))
    for each in mapped:
        each.close()
    assert not any(_mappings_of(str(tmp_path / f"{at}.index")) for at in range(50))


def test_memory_that_somebody_looks_at_stays_mapped(tmp_path: Path) -> None:
    path = str(tmp_path / "index")
    mapped = FILES.map(path, 4096)
    mapped.write_at(8, b"12345678")
    looked_at = mapped.buffer[8:16]
    mapped.close()
    assert (_mappings_of(path), bytes(looked_at)) == (1, b"12345678")
    del looked_at
    assert _mappings_of(path) == 0


def test_a_file_that_is_not_there_cannot_be_mapped() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        map_shared(-1, 10)
