"""Counts of the work that a broker does for a gigabyte and for a request: nothing is timed.

CPU seconds depend on the processor: one program beside one Kafka was at a ratio of 0.23 on one and
of 0.88 on another. The number of requests that a client makes of a gigabyte, of system calls by
kind and of context switches hardly do, so that they show what is the broker's, what is the client's
and what is the machine's. Counting costs CPU for each system call, so that this is a scenario of
its own; its loads are those of `throughput.py` and `small_requests.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..harness.processes.system_calls import why_not_countable
from ..harness.targets.target import RunningTarget, Target
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario
from . import small_requests, throughput

_COUNTS = (
    *("client_requests_per_gb", "kib_per_client_request"),
    *("system_calls_per_gb", "system_calls_per_request"),
    *("context_switches_per_gb", "context_switches_per_request"),
)
"""The endings of what is kept of a run: nothing that depends on time."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Each run is one of the other scenarios', whose broker is watched."""

    name: str = "counts"
    summary: str = "requests, system calls and context switches a gigabyte and a request"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [*throughput.SCENARIO.cases(scale), *small_requests.SCENARIO.cases(scale)]

    def plan(self, scale: Scale) -> Plan:
        if scale is Scale.SMOKE:
            return Plan(0, 1, "scenario", 2)
        # The first pass warms a JVM up, which calls the system for its compiler and collector, too.
        return Plan(1, 1, "scenario", 7)

    def refuses(self, case: Case, target: Target) -> str | None:
        if "usage" not in target.capabilities:
            return "what is not started here cannot be watched"
        return _of(case).refuses(case, target) or why_not_countable()

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        watched = Recorder(recorder.key)
        watched.counts_work = True
        _of(case).measure(case, target, watched, scale)
        for figure in watched.figures():
            if figure.metric.endswith(_COUNTS):
                recorder.figure(figure.metric, figure.value)


def _of(case: Case) -> Scenario:
    """The scenario that a case is from."""
    names = {each.name for each in small_requests.SCENARIO.cases(Scale.FULL)}
    return small_requests.SCENARIO if case.name in names else throughput.SCENARIO


SCENARIO: Scenario = Counts()
