"""The interface of a scenario: the cases to measure, how often, and at which brokers.

The runner (`runner.py`) does what all scenarios share: it starts the brokers, alternates between
them, warms them up, and decides whether a run counts. A scenario defines one run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Protocol

from .harness.targets.target import RunningTarget, Target
from .recorder import Recorder

FreshBroker = Literal["scenario", "case", "run"]
"""How often brokers are replaced by fresh ones: for the whole scenario, for each case (its tiered
and untiered form share them), or for each run. For `run`, the scenario itself starts the broker."""


class Scale(StrEnum):
    """The amount of work: to check that everything runs, for rough or for reliable figures."""

    SMOKE = "smoke"
    SMALL = "small"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Case:
    """One shape of load. Its tiered and untiered form have the same name."""

    name: str
    tiered: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run a scenario.

    `properties` go into every broker's server.properties. `expected_seconds` is the time of one
    case at one broker, including all its runs and its broker's start; the sum is shown before the
    start. Brokers with several `nodes` are clusters of so many processes (`several_nodes.py`).
    With `tls`, a broker has a listener with TLS as well: `tls_bootstrap` of its `node`.
    """

    warm_up: int
    repeats: int
    fresh_broker: FreshBroker
    expected_seconds: float
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    nodes: int = 1
    tls: bool = False

    def repeated(self, repeats: int) -> "Plan":
        """The plan with this number of counted runs per case, and an adjusted expected time."""
        seconds = self.expected_seconds / (self.warm_up + self.repeats) * (self.warm_up + repeats)
        return replace(self, repeats=repeats, expected_seconds=seconds)


class Scenario(Protocol):
    """The type of SCENARIO in a module of scenarios/."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """The line shown by `tierlog-bench list`."""
        ...

    def cases(self, scale: Scale) -> Sequence[Case]: ...

    def plan(self, scale: Scale) -> Plan: ...

    def refuses(self, case: Case, target: Target) -> str | None:
        """The reason why a case cannot be measured at a target; None if it can."""
        ...

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        """Do one run. Raises MeasurementError if it does not count, e.g. a record was lost."""
        ...
