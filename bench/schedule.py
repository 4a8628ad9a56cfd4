"""Decides what is measured at which target, before anything is started.

A target may not support what a case needs. This is not a failure: the reason is shown before the
start and recorded in the results.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .harness.targets.target import Target
from .scenario import Case, Plan, Scale, Scenario


class NothingChosenError(Exception):
    """The regular expression matches no case; the message is one sentence that gives two names."""


class Refusal(NamedTuple):
    """A case that is not measured at a target, and the reason."""

    scenario: str
    case: str
    target: str
    tiered: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """One scenario: its cases, and the targets that support each."""

    scenario: Scenario
    plan: Plan
    accepted: Mapping[Case, tuple[Target, ...]]
    refused: tuple[Refusal, ...]

    @property
    def expected_seconds(self) -> float:
        return self.plan.expected_seconds * sum(map(len, self.accepted.values()))

    @property
    def seconds_a_run(self) -> float:
        return self.plan.expected_seconds / self.runs_a_case

    @property
    def runs_a_case(self) -> int:
        return self.plan.warm_up + self.plan.repeats

    @property
    def runs(self) -> int:
        return self.runs_a_case * sum(map(len, self.accepted.values()))

    def groups(self) -> list[list[Case]]:
        """The cases that share brokers, in order."""
        cases = [case for case, targets in self.accepted.items() if targets]
        if self.plan.fresh_broker == "scenario":
            return [cases] if cases else []
        return side_by_side(cases)


def side_by_side(cases: Iterable[Case]) -> list[list[Case]]:
    """The cases grouped by name, tiered and untiered together, in order of appearance."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.name, []).append(case)
    return list(groups.values())


def schedule(
    scenarios: Iterable[Scenario],
    targets: Sequence[Target],
    scale: Scale,
    repeats: int | None = None,
    only: re.Pattern[str] | None = None,
) -> list[Part]:
    """One part per scenario, in order, including those where nothing can be measured.

    `repeats` is the number of counted runs per case; None for the number that the scenario plans.
    With `only`, the cases whose name it matches somewhere, and the scenarios that have one; raises
    NothingChosenError if there is none.
    """
    parts: list[Part] = []
    names: list[str] = []
    for scenario in scenarios:
        plan = scenario.plan(scale)
        if repeats is not None:
            plan = plan.repeated(repeats)
        cases = scenario.cases(scale)
        names += [case.name for case in cases]
        if only is not None:
            cases = [case for case in cases if only.search(case.name)]
        if cases:
            parts.append(_part(scenario, plan, cases, targets))
    if only is not None and not parts:
        shown = " and ".join(repr(name) for name in dict.fromkeys((names[0], names[-1])))
        raise NothingChosenError(f"No case matches {only.pattern!r}; there are {shown}, and more.")
    return parts


def _part(scenario: Scenario, plan: Plan, cases: Iterable[Case], targets: Sequence[Target]) -> Part:
    accepted: dict[Case, tuple[Target, ...]] = {}
    refused: list[Refusal] = []
    for case in cases:
        able: list[Target] = []
        for target in targets:
            reason = _unable(plan, case, target) or scenario.refuses(case, target)
            if reason is None:
                able.append(target)
            else:
                named = (scenario.name, case.name, target.name, case.tiered)
                refused.append(Refusal(*named, reason))
        accepted[case] = tuple(able)
    return Part(scenario, plan, accepted, tuple(refused))


def _unable(plan: Plan, case: Case, target: Target) -> str | None:
    if plan.fresh_broker == "run" and "start" not in target.capabilities:
        return f"{target.name} is not started by the harness"
    if case.tiered and "tier" not in target.capabilities:
        return f"{target.name} has no remote tier"
    return None
