"""When which fault of a torture run has its turn. Pure: times are seconds since the beginning.

A run is made of rounds, in each of which every kind has one turn, those first that have fired
least. A round has two parts. First the storm: faults that overlap, some at once, begin at an
interval that leaves time for as many rounds as are planned. Then, one after the other, those that
need a calm cluster: each begins when nothing is under way and all replicas are in sync, and the
next when that is so again. A fault that cannot begin is tried again, with the others in between,
until its patience is over; then it waits for the next round, and the reason is kept. While nothing
goes on in the whole cluster, no fault begins, and no patience ends.
"""

import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..harness.faults.fault import Fault
from ..harness.faults.fault_runner import NOT_READY, Planned

TURNS = 6
"""The rounds of a run that is long enough: one more than each kind is to fire."""

_AT_ONCE = 2
_RETRY_S = 0.5
_PATIENCE_S = 45.0
_ATTEMPTS = 10
"""How long, and how often at least, a fault is tried in a round."""
_REST_S = 5.0
_STORM_INTERVAL_S = (0.5, 10.0)
_ALONE_S = 12.0
"""How long a fault that needs calm is expected to take, until one has."""
_STORM_TURN_S = 3.0
_LASTS_S = (1.5, 6.0)
_ALONE_LASTS_S = (0.5, 3.0)
_OTHERWISE_S: Mapping[str, tuple[float, float]] = {
    "kill": (0.0, 4.0),
    "controller_kill": (0.0, 4.0),
    "majority_kill": (0.0, 2.0),
    "restart": (0.0, 2.0),
    "controller_restart": (0.0, 2.0),
    "pause": (2.0, 10.0),
    "controller_pause": (2.0, 10.0),
    "cut": (2.0, 10.0),
    "isolated": (2.0, 10.0),
}


@dataclass(slots=True)
class Tally:
    """How often a kind of fault has fired, and how often its turn went by without."""

    fired: int = 0
    skipped: int = 0
    why: str = ""
    """The reason of the last turn that went by."""


class Turns:
    """The schedule of a torture run of so many seconds; see the top of this file."""

    def __init__(
        self,
        faults: Sequence[Fault],
        chance: random.Random,
        seconds: float,
        at_once: int = _AT_ONCE,
    ) -> None:
        """`at_once` faults of a storm overlap at most."""
        self._faults = faults
        self._chance = chance
        self._seconds = seconds
        self._longest_s = max(1.0, seconds / 6)
        self._at_once = at_once
        self._alone_count = sum(fault.is_alone for fault in faults)
        self._storm_count = len(faults) - self._alone_count
        self._alone_s = _ALONE_S * self._alone_count
        self.turns = self._rounds_in(seconds)
        self.round = 0
        self._storm: deque[Fault] = deque()
        self._alone: deque[Fault] = deque()
        self._is_alone = False
        self._alone_since: float | None = None
        self._next_at = 0.0
        self._interval_s = 0.0
        self._attempts: dict[str, list[float]] = {}
        self.tallies = {fault.name: Tally() for fault in faults}

    def _rounds_in(self, seconds: float) -> int:
        shortest_s = _STORM_TURN_S * self._storm_count + self._alone_s + _REST_S
        return int(max(1, min(TURNS, seconds / shortest_s)))

    def due(self, at: float, under_way: int) -> Planned | None:
        if at < self._next_at or self._is_alone:
            return None
        if not self._storm and not self._alone:
            if under_way or not self._faults:
                return None
            self._begin_round(at)
            return None
        if self._storm:
            if under_way >= self._at_once:
                return None
            fault = self._storm.popleft()
            self._next_at = at + self._interval_s
        else:
            if under_way:
                return None
            if self._alone_since is None:
                self._alone_since = at
            fault = self._alone.popleft()
            self._is_alone = True
        usual_s = _ALONE_LASTS_S if fault.is_alone else _LASTS_S
        shortest_s, longest_s = _OTHERWISE_S.get(fault.name, usual_s)
        return Planned(fault, min(self._chance.uniform(shortest_s, longest_s), self._longest_s))

    def _begin_round(self, at: float) -> None:
        if self._alone_since is not None:
            self._alone_s = at - self._alone_since
            self._alone_since = None
        left = max(1, self.turns - self.round)
        storm_s = max(0.0, self._seconds - at) / left - self._alone_s - _REST_S
        shortest_s, longest_s = _STORM_INTERVAL_S
        per_fault_s = storm_s / max(1, self._storm_count)
        self._interval_s = max(shortest_s, min(longest_s, per_fault_s))
        # A short run has no time to rest.
        self._next_at = at + min(_REST_S, self._seconds / 20)
        self.round += 1
        self._attempts = {fault.name: [] for fault in self._faults}
        order = self._chance.sample(list(self._faults), len(self._faults))
        order.sort(key=lambda fault: self.tallies[fault.name].fired)
        self._storm.extend(fault for fault in order if not fault.is_alone)
        self._alone.extend(fault for fault in order if fault.is_alone)

    def put_off(self, planned: Planned, at: float, why: str) -> None:
        """Its turn comes again in this round, unless its patience is over."""
        fault = planned.fault
        queue = self._alone if fault.is_alone else self._storm
        if fault.is_alone:
            self._is_alone = False
        self._next_at = at + _RETRY_S
        if why == NOT_READY:
            queue.appendleft(fault)
            return
        self._attempts[fault.name].append(at)
        attempts = self._attempts[fault.name]
        if len(attempts) < _ATTEMPTS or at - attempts[0] <= _PATIENCE_S:
            queue.append(fault)
            return
        tally = self.tallies[fault.name]
        tally.skipped += 1
        tally.why = why

    def ended(self, planned: Planned, at: float) -> None:
        """It has fired, and is over."""
        self.tallies[planned.fault.name].fired += 1
        if planned.fault.is_alone:
            self._is_alone = False

    def end(self) -> None:
        """The run is over: who still waits for a turn of this round has not had it."""
        for fault in (*self._storm, *self._alone):
            tally = self.tallies[fault.name]
            tally.skipped += 1
            tally.why = tally.why or "the run was over before its turn"
