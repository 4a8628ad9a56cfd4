"""Every point at which the power can go, one after the other.

A scenario prepares a disk, does its work, and afterwards says what must hold. It is first run to
its end to count the operations that change the disk; then it is run anew for each of them, the
power goes exactly there, the disk forgets (nothing, everything or by chance), and the scenario
checks what a new process finds. The new process may lose its power too, while it recovers.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tierlog.tests.simulation.disk import PowerLoss, SimulatedDisk, Survival
from tierlog.tests.simulation.files import SimulatedFiles


class Scenario(Protocol):
    """What happens to a disk. One object lives through one run: it remembers what was promised."""

    def prepare(self, files: SimulatedFiles) -> None:
        """What is on the disk before the power can go; all of it is safe."""
        ...

    def work(self, files: SimulatedFiles) -> None:
        """What is done until the power goes, or to its end."""
        ...

    def check(self, files: SimulatedFiles) -> None:
        """Recover, and assert what must hold. Called again if the power goes in the meantime."""
        ...


@dataclass(frozen=True, slots=True)
class PowerCut:
    """When the power goes, and what it leaves: enough to run the same failure again.

    `operation` counts from 1; None is after the last one.
    """

    operation: int | None
    survival: Survival
    seed: int


def cut_power_everywhere(
    make: Callable[[], Scenario], *, seed: int = 0, chances_per_point: int = 1
) -> int:
    """Run the scenario once for every point and survival; how many operations it has.

    An assertion that fails carries a note with the `PowerCut`; `cut_power` runs that one again.
    """
    disk, scenario = _prepared(make)
    before = disk.operations
    scenario.work(SimulatedFiles(disk))
    operations = disk.operations - before
    assert operations, "A scenario that never changes the disk has no points."
    for operation in (*range(1, operations + 1), None):
        cut_power(make, PowerCut(operation, Survival.NOTHING, seed))
        cut_power(make, PowerCut(operation, Survival.EVERYTHING, seed))
        for chance in range(chances_per_point):
            cut_power(make, PowerCut(operation, Survival.BY_CHANCE, seed + chance))
    return operations


def cut_power(make: Callable[[], Scenario], cut: PowerCut) -> None:
    """One run whose power goes once in the work and once, perhaps, in the recovery."""
    chance = random.Random(f"{cut.seed}/{cut.operation}")
    disk, scenario = _prepared(make)
    try:
        _work_until(cut.operation, scenario, disk)
        disk.lose_power(cut.survival, chance)
        if cut.survival is Survival.BY_CHANCE:
            _recover_without_finishing(scenario, disk, chance)
        scenario.check(SimulatedFiles(disk))
        _assert_recovery_is_final(scenario, disk, chance)
    except Exception as error:
        error.add_note(f"{cut}; last operation: {disk.last_operation}")
        raise
    except PowerLoss:
        raise AssertionError(f"{cut}: a power loss escaped") from None


def _work_until(operation: int | None, scenario: Scenario, disk: SimulatedDisk) -> None:
    if operation is None:
        scenario.work(SimulatedFiles(disk))
        return
    disk.power_fails_at = disk.operations + operation
    try:
        scenario.work(SimulatedFiles(disk))
    except PowerLoss:
        return
    raise AssertionError("The power never went: the scenario does not repeat itself.")


def _recover_without_finishing(
    scenario: Scenario, disk: SimulatedDisk, chance: random.Random
) -> None:
    """Let the power go once more, at one of the first operations of the recovery."""
    disk.power_fails_at = disk.operations + chance.randint(1, 12)
    try:
        scenario.check(SimulatedFiles(disk))
    except PowerLoss:
        disk.lose_power(Survival.BY_CHANCE, chance)
    else:
        disk.power_fails_at = None
        disk.lose_power(Survival.EVERYTHING, chance)


def _assert_recovery_is_final(
    scenario: Scenario, disk: SimulatedDisk, chance: random.Random
) -> None:
    """What a recovery found must hold for the next one: kill the process and look again."""
    disk.lose_power(Survival.EVERYTHING, chance)
    scenario.check(SimulatedFiles(disk))


def _prepared(make: Callable[[], Scenario]) -> tuple[SimulatedDisk, Scenario]:
    disk, scenario = SimulatedDisk(), make()
    scenario.prepare(SimulatedFiles(disk))
    disk.lose_power(Survival.EVERYTHING, random.Random(0))
    return disk, scenario
