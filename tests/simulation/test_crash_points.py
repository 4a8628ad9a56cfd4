"""The harness finds the point at which a careless writer loses what it promised."""

import pytest

from tierlog.tests.simulation.crash_points import PowerCut, cut_power, cut_power_everywhere
from tierlog.tests.simulation.disk import Survival
from tierlog.tests.simulation.files import SimulatedFiles


class Journal:
    """Appends numbers to a file and promises each; what it promises must be there afterwards."""

    def __init__(self, *, flushes: bool = True, syncs_the_name: bool = True) -> None:
        self.flushes = flushes
        self.syncs_the_name = syncs_the_name
        self.promised = b""
        self.checks = 0

    def prepare(self, files: SimulatedFiles) -> None:
        files.mkdirs("/data")

    def work(self, files: SimulatedFiles) -> None:
        handle = files.open("/data/journal", create=True)
        if self.syncs_the_name:
            files.sync_dir("/data")
        for number in range(1, 6):
            handle.write_at(handle.size(), bytes([number]))
            if self.flushes:
                handle.flush()
            self.promised += bytes([number])

    def check(self, files: SimulatedFiles) -> None:
        self.checks += 1
        exists = files.exists("/data/journal")
        found = files.read("/data/journal") if exists else b""
        assert found.startswith(self.promised)


def test_a_careful_writer_survives_every_point() -> None:
    # Create, sync the directory, and five times write and flush.
    assert cut_power_everywhere(Journal, chances_per_point=5) == 12


def test_forgetting_to_flush_is_found() -> None:
    with pytest.raises(AssertionError) as caught:
        cut_power_everywhere(lambda: Journal(flushes=False))
    assert any("PowerCut" in note for note in caught.value.__notes__)


def test_forgetting_the_directory_is_found() -> None:
    with pytest.raises(AssertionError):
        cut_power_everywhere(lambda: Journal(syncs_the_name=False))


def test_one_cut_can_be_run_again_alone() -> None:
    cut_power(Journal, PowerCut(operation=7, survival=Survival.BY_CHANCE, seed=3))


def test_a_point_past_the_end_is_refused() -> None:
    with pytest.raises(AssertionError, match="never went"):
        cut_power(Journal, PowerCut(operation=13, survival=Survival.NOTHING, seed=0))


class SloppyRecovery(Journal):
    """Recovers by writing a file anew without care: a second power loss shows it."""

    def check(self, files: SimulatedFiles) -> None:
        super().check(files)
        found = files.read("/data/journal") if files.exists("/data/journal") else b""
        handle = files.open("/data/journal", create=True)
        handle.truncate(0)
        handle.write_at(0, found)


def test_a_recovery_that_loses_power_is_tried_too() -> None:
    with pytest.raises(AssertionError):
        cut_power_everywhere(SloppyRecovery, chances_per_point=20)
