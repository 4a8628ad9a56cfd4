"""What the model says of the clusters that the scenario `sizing` measures, figure by figure.

The scenario's cases have these names, and its figures those of the mappings here. So the model can
be held against a results folder again after a constant has changed (`fit.py`).
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from ..figures import read_results
from .costs import Costs
from .model import (
    DEATH_HINT_S,
    Plan,
    Share,
    failover_s,
    fetches_per_s,
    metadata_mb,
    needs_of,
    open_files,
    share_of,
)

SCENARIO = "sizing"
_IDLE = re.compile(r"(\d+) brokers, ([\d,]+) partitions, RF (\d+), idle")
_LOAD = re.compile(r"(\d+) MB/s, linger (\d+) ms, RF (\d+), (\d+|no) readers?")
Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class IdleRun:
    """A cluster that no client uses, and what was measured of it."""

    brokers: int
    partitions: int
    replicas: int
    tiered: bool = False
    figures: Figures = field(default_factory=dict[str, float], compare=False)

    @property
    def name(self) -> str:
        """The name of the case."""
        return f"{self.brokers} brokers, {self.partitions:,} partitions, RF {self.replicas}, idle"

    @property
    def plan(self) -> Plan:
        hours = 1.0 if self.tiered else None
        return Plan(self.brokers, self.partitions, self.replicas, local_retention_hours=hours)

    @property
    def led(self) -> float:
        return self.partitions / self.brokers

    @property
    def followed(self) -> float:
        return self.partitions * (self.replicas - 1) / self.brokers

    @property
    def elsewhere(self) -> float:
        return self.partitions - self.led - self.followed

    @property
    def fetchers(self) -> float:
        """Fetchers at either end: to and from each other broker."""
        return 2.0 * (self.brokers - 1) if self.partitions and self.replicas > 1 else 0.0

    def model(self, costs: Costs) -> dict[str, float]:
        """The figures by the model: of a mean node, and of the death of one."""
        needs = needs_of(share_of(self.plan), costs)
        figures = {
            "resident_mib": needs.memory_mib,
            "idle_cpu_s_per_minute": needs.idle_cores * 60,
            "open_files": open_files(self.plan, costs),
            "restart_s": needs.start_s,
        }
        if self.partitions:
            figures["metadata_mb"] = metadata_mb(self.plan, costs)
        if self.partitions and self.replicas > 1:
            figures["failover_s"] = failover_s(self.plan, costs, DEATH_HINT_S)
        return figures


@dataclass(frozen=True, slots=True)
class LoadRun:
    """One partition at a fixed rate, and what was measured of its leader and followers."""

    megabytes: int
    linger_ms: int
    replicas: int
    readers: int = 0
    figures: Figures = field(default_factory=dict[str, float], compare=False)

    @property
    def name(self) -> str:
        """The name of the case."""
        read = f"{self.readers} reader" if self.readers == 1 else f"{self.readers or 'no'} readers"
        return f"{self.megabytes} MB/s, linger {self.linger_ms} ms, RF {self.replicas}, {read}"

    @property
    def batches(self) -> float:
        """Batches a second, as they came of rate and linger."""
        return self.figures["batches_per_s"]

    @property
    def gigabytes(self) -> float:
        """Gigabytes of records a second."""
        return self.figures["mb_per_s"] / 1000

    def model(self, costs: Costs) -> dict[str, float]:
        """The figures by the model, given the batches and bytes that there were."""
        batches, megabytes = self.batches, self.figures["mb_per_s"]
        copies, readers = self.replicas - 1, self.readers
        leads = Share(
            led=1,
            produced_mb=megabytes,
            batches=batches,
            followers=copies,
            copies=copies,
            readers=readers,
        )
        answered = fetches_per_s(batches * copies, copies, costs)
        figures = {"leader_cores": needs_of(leads, costs).cpu_cores}
        if copies or readers:
            read = fetches_per_s(batches * readers, readers, costs)
            figures["answered_per_s"] = answered + read
        if copies:
            follows = Share(followed=1, leaders=1, followed_mb=megabytes, followed_batches=batches)
            figures["follower_cores"] = needs_of(follows, costs).cpu_cores
        return figures


_RATES = ((5, 2), (5, 20), (10, 1), (20, 10))
RUNS: tuple[IdleRun | LoadRun, ...] = (
    IdleRun(3, 0, 3),
    IdleRun(3, 300, 3),
    IdleRun(3, 1_000, 3),
    IdleRun(3, 1_000, 1),
    IdleRun(3, 300, 3, tiered=True),
    IdleRun(3, 1_000, 3, tiered=True),
    IdleRun(10, 100, 3),
    IdleRun(10, 1_000, 3),
    *(LoadRun(*rate, 1) for rate in _RATES),
    *(LoadRun(*rate, 1, 1) for rate in _RATES),
    *(LoadRun(*rate, 3) for rate in _RATES),
    *(LoadRun(*rate, 3, 1) for rate in _RATES),
)
"""What the scenario measures at its small scale. The model's constants are fitted to it."""


def read_runs(directory: Path) -> tuple[list[IdleRun], list[LoadRun]]:
    """The mean figures of each case of the scenario in a results folder. Raises ResultsError."""
    values: dict[tuple[str, bool], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for figure in read_results(directory).figures:
        if figure.scenario == SCENARIO:
            values[figure.case, figure.tiered][figure.metric].append(figure.value)
    idle: list[IdleRun] = []
    loads: list[LoadRun] = []
    for (case, tiered), metrics in values.items():
        figures = {metric: mean(each) for metric, each in metrics.items()}
        if (sized := _IDLE.fullmatch(case)) is not None:
            brokers, partitions, replicas = (
                int(group.replace(",", "")) for group in sized.groups()
            )
            idle.append(IdleRun(brokers, partitions, replicas, tiered, figures))
        elif (loaded := _LOAD.fullmatch(case)) is not None:
            megabytes, linger_ms, replicas = (int(group) for group in loaded.groups()[:3])
            readers = 0 if loaded[4] == "no" else int(loaded[4])
            loads.append(LoadRun(megabytes, linger_ms, replicas, readers, figures))
    return idle, loads
