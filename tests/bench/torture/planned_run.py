"""Plays a plan against a cluster that is made up: how long faults take, and which cannot begin."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tierlog.bench.harness.faults.fault import Fault, Grounds, Nodes
from tierlog.bench.harness.faults.fault_runner import Planned
from tierlog.bench.torture.plan import Turns

TICK_S = 0.1


def _never(grounds: Grounds, nodes: Nodes, lasts_s: float) -> None:
    raise NotImplementedError


def only_planned(name: str, *, is_alone: bool = False) -> Fault:
    """A fault that is never done."""
    return Fault(name, "", _never, is_alone=is_alone)


def made_up(storm: int, alone: int) -> list[Fault]:
    """So many faults of both kinds."""
    return [
        *(only_planned(f"storm-{at}") for at in range(storm)),
        *(only_planned(f"alone-{at}", is_alone=True) for at in range(alone)),
    ]


class Event(NamedTuple):
    """A fault that began, and what was under way then."""

    at: float
    name: str
    beside: tuple[str, ...]


class Played(NamedTuple):
    """A plan at the end of a run, and what began when."""

    turns: Turns
    events: Sequence[Event]


def play(
    faults: Sequence[Fault],
    seconds: float,
    seed: str,
    can_begin: Callable[[Planned, float], bool] = lambda planned, at: True,
    recovers_s: float = 5.0,
    why: str = "it may not",
) -> Played:
    """Play a run in ticks; a fault that needs calm is over so long after it was undone."""
    turns, events = Turns(faults, random.Random(seed), seconds), list[Event]()
    under_way: list[tuple[float, Planned]] = []
    for tick in range(int(seconds / TICK_S)):
        at = tick * TICK_S
        for each in [each for each in under_way if each[0] <= at]:
            under_way.remove(each)
            turns.ended(each[1], at)
        planned = turns.due(at, len(under_way))
        if planned is None:
            continue
        if not can_begin(planned, at):
            turns.put_off(planned, at, why)
            continue
        beside = tuple(each.fault.name for _, each in under_way)
        events.append(Event(at, planned.fault.name, beside))
        more_s = recovers_s if planned.fault.is_alone else 0.0
        under_way.append((at + planned.lasts_s + more_s, planned))
    turns.end()
    return Played(turns, events)
