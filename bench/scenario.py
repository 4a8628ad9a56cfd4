"""What a scenario is: cases to be measured, how often and at which brokers.

The runner (`runner.py`) does what all scenarios have in common: it starts the brokers, lets them
take turns, warms them up, and decides whether a run counts. A scenario says what one run is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Protocol

from .recorder import Recorder
from .target import RunningTarget, Target

FreshBroker = Literal["scenario", "case", "run"]
"""What meets brokers that have done nothing before: the whole scenario, each case (a case's tiered
and untiered form share them), or each run. For `run` the broker is handed over not yet started."""


class Scale(StrEnum):
    """How much of everything: does it work at all, figures to look at, figures to rely on."""

    SMOKE = "smoke"
    SMALL = "small"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Case:
    """One shape of load. With a tier and without one it has the same name."""

    name: str
    tiered: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """How a scenario wants to be run.

    `properties` are for every broker's server.properties. `expected_seconds` is what one case takes
    at one broker, all its runs and its broker's start together; the sum is told before the start.
    """

    warm_up: int
    repeats: int
    fresh_broker: FreshBroker
    expected_seconds: float
    properties: Mapping[str, str] = field(default_factory=dict[str, str])

    def repeated(self, repeats: int) -> "Plan":
        """The same with so many counted runs of a case; what is expected grows in proportion."""
        seconds = self.expected_seconds / (self.warm_up + self.repeats) * (self.warm_up + repeats)
        return replace(self, repeats=repeats, expected_seconds=seconds)


class Scenario(Protocol):
    """What a module in scenarios/ offers as SCENARIO."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """One line for `tierlog-bench list`."""
        ...

    def cases(self, scale: Scale) -> Sequence[Case]: ...

    def plan(self, scale: Scale) -> Plan: ...

    def refuses(self, case: Case, target: Target) -> str | None:
        """Why this cannot be measured there, in plain words; None if it can."""
        ...

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        """One run. Raises MeasurementError if it does not count, say because a record was lost."""
        ...
