"""Where a tiered log begins after a crash that took the checkpoint of its log start offset."""

from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.storage.files import OsFiles
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.storage import crash_scenarios
from tierlog.tests.storage.log_home import NOW_MS, TIERED, LogHome, append, plain


def test_a_deleted_beginning_does_not_come_back_without_its_epochs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Found by seed 16 of the simulation: offsets that no epoch of the history covers.

    Nothing finds them, in the tier or elsewhere, and a consumer that starts at the earliest offset
    would be sent back there for ever. It is told, for a damaged history looks the same (seed 7692
    of the starts on damaged files).
    """
    home = LogHome(tmp_path, TIERED)
    log = home.open()
    for epoch in range(5):
        append(log, plain(2), epoch)
    log.update_high_watermark(10)
    log.maybe_increment_log_start_offset(7)
    log.close(0)
    again = home.open(clean=False, recovery_point=10)
    assert again.log_start_offset == 7
    assert again.leader_epochs.entries[0].start_offset == 7
    assert "orders-0 starts at offset 7 according to leader-epoch-checkpoint" in caplog.text


def test_a_history_that_reaches_back_leaves_the_beginning_as_it_is(tmp_path: Path) -> None:
    home = LogHome(tmp_path, TIERED)
    log = home.open()
    append(log, plain(4), 3)
    log.close(0)
    assert home.open().log_start_offset == 0


def test_records_deleted_before_a_crash_do_not_come_back_without_their_epochs(
    tmp_path: Path,
) -> None:
    """The end of the log is lost, down to below where its history begins: nothing is left."""
    home = LogHome(tmp_path, TIERED)
    log = home.open()
    for epoch in range(2):
        append(log, plain(2), epoch)
    log.flush()
    size = log.local.active_segment.size
    for epoch in range(2, 5):
        append(log, plain(2), epoch)
    log.maybe_increment_log_start_offset(7)
    log.release()
    path = home.path / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:size])
    again = home.open(clean=False)
    assert (again.log_start_offset, again.log_end_offset) == (7, 7)
    assert append(again, plain(1), 5).first_offset == 7


def test_a_log_begun_anew_has_nothing_in_the_tier_whatever_the_checkpoint_says(
    tmp_path: Path,
) -> None:
    """The leader's log started at 20; the crash came before that was written down."""
    home = LogHome(tmp_path, TIERED)
    log = home.open()
    append(log, plain(2))
    log.truncate_fully_and_start_at(20)
    log.release()
    again = home.open(clean=False, recovery_point=20, log_start=0)
    assert (again.log_start_offset, again.local_log_start_offset) == (20, 20)


def test_what_a_recovery_cuts_cannot_come_back() -> None:
    """Found by seed 5331 of the replica walk: a stale batch stood right after the new ones."""
    files = SimulatedFiles(SimulatedDisk())
    files.mkdirs(crash_scenarios.DIRECTORY)
    log = crash_scenarios.open_log(files)
    append(log, plain(2))
    size = log.local.active_segment.size
    append(log, plain(2))
    log.flush()
    path = log.local.active_segment.path
    log.release()
    handle = files.open(path)
    handle.write_at(size + 70, b"torn")
    handle.flush()
    again = crash_scenarios.open_log(files)
    assert again.log_end_offset == 2
    assert len(files.disk.file(path).durable) == size


OFFLOADED = replace(TIERED, local_retention_bytes=1)


def offloaded(home: LogHome) -> int:
    """A log of five epochs, of which the tier alone has the first segments; its local start."""
    log = home.open()
    for epoch in range(5):
        for _ in range(10):
            append(log, plain(2), epoch)
    log.flush()
    log.bounds.update_highest_remote(log.local.active_segment.base_offset - 1)
    log.delete_old_segments(NOW_MS)
    start = log.local.segments.first.base_offset
    assert start > 0
    log.release()
    return start


@pytest.mark.parametrize("content", [None, b"", b"0\n99\n0 0\n"])
def test_two_crashes_after_a_lost_history_delete_nothing(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Found by a torture run: the history that the first start had rebuilt began with the local
    log, the second start took all below for deleted, and the tier was emptied."""
    home = LogHome(tmp_path, OFFLOADED)
    local_start = offloaded(home)
    history = home.path / "leader-epoch-checkpoint"
    if content is None:
        history.unlink()
    else:
        history.write_bytes(content)
    for _ in range(2):
        log = home.open(clean=False, recovery_point=local_start)
        assert (log.log_start_offset, log.local_log_start_offset) == (0, local_start)
        assert log.leader_epochs.entries[0].start_offset == 0
        log.release()
    assert "leader-epoch-checkpoint of orders-0 is unusable" in caplog.text
    assert "count as deleted" not in caplog.text


class WatchedFiles(OsFiles):
    """Keeps every content of a history that was written."""

    def __init__(self) -> None:
        super().__init__()
        self.histories: list[bytes] = []

    def atomic_replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
        if path.endswith("leader-epoch-checkpoint"):
            self.histories.append(content)
        super().atomic_replace(path, content, durable=durable)


def test_no_crash_while_a_history_is_rebuilt_deletes_anything(tmp_path: Path) -> None:
    """Whatever the broker has written when it dies: all that is in the tier is still there."""
    local_start = offloaded(LogHome(tmp_path, OFFLOADED))
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").unlink()
    files = WatchedFiles()
    LogHome(tmp_path, OFFLOADED, files).open(clean=False, recovery_point=local_start).release()
    assert files.histories
    for history in files.histories:
        _, _, oldest, *_ = history.decode().splitlines()
        assert oldest.split()[1] == "0"
