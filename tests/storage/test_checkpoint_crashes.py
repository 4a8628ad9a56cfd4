"""Wherever the power goes while a checkpoint is replaced, a whole one is found: old or new."""

from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.checkpoint import (
    read_epoch_checkpoint,
    read_offset_checkpoint,
    write_epoch_checkpoint,
    write_offset_checkpoint,
)
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.files import SimulatedFiles

PATH = "/data/recovery-point-offset-checkpoint"


class OffsetsMoveForward:
    """A log directory's recovery points are written again and again."""

    def __init__(self) -> None:
        self.begun = 0
        self.promised = 0

    def _offsets(self, step: int) -> dict[TopicPartition, int]:
        # The number of entries changes, so that a mixture of two could not be read.
        return {TopicPartition("orders", partition): step * 100 for partition in range(step)}

    def prepare(self, files: SimulatedFiles) -> None:
        files.mkdirs("/data")

    def work(self, files: SimulatedFiles) -> None:
        for step in range(1, 5):
            self.begun = step
            write_offset_checkpoint(files, PATH, self._offsets(step))
            self.promised = step

    def check(self, files: SimulatedFiles) -> None:
        found = read_offset_checkpoint(files, PATH)
        assert found in (self._offsets(self.promised), self._offsets(self.begun))


class EpochsGrow:
    """A leader epoch checkpoint gets one line more with every election."""

    history = ((0, 0), (1, 57), (4, 1000), (5, 1000))

    def __init__(self) -> None:
        self.begun = 0
        self.promised = 0

    def prepare(self, files: SimulatedFiles) -> None:
        files.mkdirs("/data")

    def work(self, files: SimulatedFiles) -> None:
        for length in range(1, len(self.history) + 1):
            self.begun = length
            write_epoch_checkpoint(files, PATH, self.history[:length])
            self.promised = length

    def check(self, files: SimulatedFiles) -> None:
        found = tuple(read_epoch_checkpoint(files, PATH))
        assert found in (self.history[: self.promised], self.history[: self.begun])


def test_offset_checkpoints_are_replaced_whole() -> None:
    assert cut_power_everywhere(OffsetsMoveForward, chances_per_point=5) > 12


def test_epoch_checkpoints_are_replaced_whole() -> None:
    assert cut_power_everywhere(EpochsGrow, chances_per_point=5) > 12
