"""A scenario that measures nothing but does what a test told it to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tierlog.bench.harness.targets.target import RunningTarget, Target
from tierlog.bench.recorder import Recorder
from tierlog.bench.scenario import Case, FreshBroker, Plan, Scale
from tierlog.tests.bench.fake_target import FakeRunning

Measure = Callable[[RunningTarget, Recorder], None]


def one_figure(_target: RunningTarget, recorder: Recorder) -> None:
    recorder.figure("seconds", 1)


@dataclass
class FakeScenario:
    """Its runs in order: (case, tiered, target, run number, the broker's folder)."""

    do: Measure = one_figure
    names: Sequence[str] = ("only",)
    kinds: Sequence[bool] = (False,)
    warm_up: int = 0
    repeats: int = 1
    fresh_broker: FreshBroker = "scenario"
    refused: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    runs: list[tuple[str, bool, str, int, Path]] = field(
        default_factory=list[tuple[str, bool, str, int, Path]]
    )
    name: str = "fake-scenario"
    summary: str = "nothing"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case(name, tiered) for name in self.names for tiered in self.kinds]

    def plan(self, scale: Scale) -> Plan:
        return Plan(self.warm_up, self.repeats, self.fresh_broker, expected_seconds=2.0)

    def refuses(self, case: Case, target: Target) -> str | None:
        return self.refused.get((case.name, target.name))

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        run = recorder.key.run
        self.runs.append((case.name, case.tiered, target.name, run, target.directory))
        if self.fresh_broker == "run":
            target.start()
        self.do(target, recorder)


def dies(target: RunningTarget) -> None:
    """What a crash looks like from outside: the broker is simply not there any more."""
    assert isinstance(target, FakeRunning)
    target.alive = False
