"""What a torture run has shown, in numbers that a page and a line of JSON are made of. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..harness.checker.acknowledged import Acknowledged, Violation, Wrong
from ..harness.checker.anomalies import Anomaly
from ..harness.cluster_runs.durability import back_in_sync_at
from ..harness.cluster_runs.in_sync import InSync
from ..harness.faults.fault_runner import Fired
from .plan import Tally

_PAUSE_S = 1.0
"""A partition without an acknowledgement for longer counts as unavailable."""

_WRONG_OF: Mapping[Anomaly, Wrong] = {
    Anomaly.LOST_WRITE: Wrong.LOST,
    Anomaly.UNSEEN: Wrong.LOST,
    Anomaly.DUPLICATE: Wrong.DOUBLED,
    Anomaly.NONMONOTONIC_SEND: Wrong.REORDERED,
    Anomaly.INT_NONMONOTONIC_SEND: Wrong.REORDERED,
    Anomaly.NONMONOTONIC_POLL: Wrong.REORDERED,
    Anomaly.INT_NONMONOTONIC_POLL: Wrong.REORDERED,
    Anomaly.G1A: Wrong.ABORTED_READ,
}

Span = tuple[float, float]
"""From and to, in seconds since the run began."""


def wrong_of(anomaly: Anomaly) -> Wrong:
    """What an anomaly that Kafka does not allow counts as."""
    return _WRONG_OF.get(anomaly, Wrong.OTHER)


@dataclass(slots=True)
class ClientSeen:
    """What one producing client saw of a run."""

    name: str
    records: int = 0
    failed: int = 0
    failed_with: Counter[str] = field(default_factory=Counter[str])
    """What the client said of them."""
    starts: int = 0
    per_second: Counter[int] = field(default_factory=Counter[int])
    """Acknowledgements in each second of the run."""
    unavailable_s: list[float] = field(default_factory=list[float])
    """For each fault, the longest time without an acknowledgement of some partition."""
    pauses: list[Span] = field(default_factory=list[Span])
    """When some partition had no acknowledgement for more than a second."""

    def add(self, acknowledged: Acknowledged, began: float, moments: Sequence[float]) -> None:
        """Add what was acknowledged of one more topic; `moments` are when faults began."""
        self.records += acknowledged.records
        self.failed += len(acknowledged.failures)
        # Each says: f PARTITION NUMBER ERROR.
        self.failed_with.update(line.split(maxsplit=3)[-1] for line in acknowledged.failures)
        self.starts += 1
        gaps = acknowledged.longest_gaps_s(moments)
        before = self.unavailable_s or [0.0] * len(gaps)
        self.unavailable_s = [max(pair) for pair in zip(before, gaps, strict=True)]
        spans: list[Span] = []
        for answers in acknowledged.answers.values():
            times = sorted(answer.at - began for answer in answers.values())
            self.per_second.update(int(at) for at in times)
            spans += [(at, to) for at, to in pairwise(times) if to - at > _PAUSE_S]
        self.pauses = merged([*self.pauses, *spans])


def merged(spans: Iterable[Span]) -> list[Span]:
    """Their union, in order."""
    whole: list[Span] = []
    for begin, end in sorted(spans):
        if whole and begin <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(end, whole[-1][1])
        else:
            whole.append((begin, end))
    return whole


@dataclass(frozen=True, slots=True)
class FaultSeen:
    """One fault that fired; times in seconds since the run began."""

    name: str
    nodes: tuple[int, ...]
    began_s: float
    returned_s: float
    in_sync_s: float | None
    """When its nodes were back in every ISR; None if they never left."""


@dataclass(frozen=True, slots=True)
class CopySeen:
    """One copier's work."""

    name: str
    records: int
    commits: int
    aborts: int
    starts: int


@dataclass(slots=True)
class HistoriesSeen:
    """All histories."""

    judged: int = 0
    acts: int = 0
    inconclusive: int = 0
    anomalies: Counter[str] = field(default_factory=Counter[str])
    """In how many histories each anomaly was that Kafka allows."""


@dataclass(frozen=True, slots=True)
class Plot:
    """What the run was asked to be."""

    target: str
    brokers: int
    profiles: Sequence[str]
    seed: int
    has_tier: bool


@dataclass(slots=True)
class Outcome:
    """Everything that was seen; see the top of this file."""

    plot: Plot
    facts: dict[str, object] = field(default_factory=dict[str, object])
    """About the machine and the versions."""
    seconds: float = 0.0
    """How long faults were done."""
    clients: list[ClientSeen] = field(default_factory=list[ClientSeen])
    copies: list[CopySeen] = field(default_factory=list[CopySeen])
    histories: HistoriesSeen = field(default_factory=HistoriesSeen)
    faults: list[FaultSeen] = field(default_factory=list[FaultSeen])
    tallies: Mapping[str, Tally] = field(default_factory=dict[str, Tally])
    meanings: Mapping[str, str] = field(default_factory=dict[str, str])
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Faults and clients that this machine or this target cannot have, and why."""
    in_sync: list[tuple[float, tuple[int, ...]]] = field(
        default_factory=list[tuple[float, tuple[int, ...]]]
    )
    """Whenever it changed: the nodes that were in every ISR, and since when."""
    violations: list[tuple[str, Violation]] = field(default_factory=list[tuple[str, Violation]])
    """With the client or the history that shows it."""
    failures: list[str] = field(default_factory=list[str])
    """Why the run does not count: the cluster did not recover, or something was not read."""
    ended_by_themselves: list[str] = field(default_factory=list[str])
    fault_errors: list[str] = field(default_factory=list[str])

    @property
    def counts(self) -> dict[Wrong, int]:
        """How often each thing is wrong."""
        seen = Counter(violation.wrong for _, violation in self.violations)
        return {wrong: seen[wrong] for wrong in Wrong}

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong but what a client did to itself, and everything was judged."""
        blamed = Wrong.DOUBLED_BY_CLIENT
        return not self.failures and all(
            violation.wrong is blamed for _, violation in self.violations
        )

    @property
    def records(self) -> int:
        return sum(client.records for client in self.clients)

    def unavailable_s(self, name: str | None = None) -> list[float]:
        """What every client saw of each fault, or of each fault of that name."""
        return [
            seconds
            for client in self.clients
            for fault, seconds in zip(self.faults, client.unavailable_s, strict=True)
            if name in (None, fault.name)
        ]

    def back_in_sync_s(self, name: str | None = None) -> list[float]:
        """From a fault's end until its nodes were in every ISR, for those that had left one."""
        return [
            fault.in_sync_s - fault.returned_s
            for fault in self.faults
            if fault.in_sync_s is not None and name in (None, fault.name)
        ]

    def say_faults(self, fired: Sequence[Fired], history: Sequence[InSync], began: float) -> None:
        """Note which faults fired and who was in sync when; `began` is a time of `time.time`."""
        for at, fault in enumerate(fired):
            hits_too = (each for each in fired[at + 1 :] if {*each.nodes} & {*fault.nodes})
            until = next((each.began for each in hits_too), math.inf)
            back_at = back_in_sync_at(fault, history, until)
            returned = fault.returned or began + self.seconds
            self.faults.append(
                FaultSeen(
                    fault.name,
                    fault.nodes,
                    fault.began - began,
                    returned - began,
                    None if back_at is None else back_at - began,
                )
            )
        for seen in history:
            nodes = tuple(sorted(seen.nodes))
            if not self.in_sync or self.in_sync[-1][1] != nodes:
                self.in_sync.append((seen.at - began, nodes))
