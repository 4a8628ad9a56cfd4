"""Faults are drawn from a seed, and a way back into sync is timed."""

import random

from tierlog.bench.harness.cluster_runs.durability import back_in_sync_at
from tierlog.bench.harness.cluster_runs.in_sync import InSync
from tierlog.bench.harness.faults.fault_runner import USUAL, Drawn, Fired, Planned


def drawn(seed: str, faults: int = 50) -> list[Planned]:
    schedule = Drawn(random.Random(seed), interval_s=10.0, longest_s=7.0)
    due = (schedule.due(10.0 * at, under_way=0) for at in range(1, faults + 1))
    return [planned for planned in due if planned is not None]


def test_a_seed_draws_the_same_faults_and_every_kind_first() -> None:
    assert drawn("a") == drawn("a") != drawn("b")
    assert len(drawn("a")) == 50
    assert {each.fault for each in drawn("a", len(USUAL))} == set(USUAL)
    assert all(0 <= each.lasts_s <= 7.0 for each in drawn("a"))


def test_nothing_is_due_before_its_interval_and_what_is_put_off_has_its_turn_later() -> None:
    schedule = Drawn(random.Random("a"), interval_s=10.0)
    assert schedule.due(9.9, under_way=0) is None
    first = schedule.due(10.0, under_way=0)
    assert first is not None
    assert schedule.due(10.1, under_way=1) is None
    schedule.put_off(first, 10.2, "no node was free for it")
    later = [schedule.due(10.0 * at, under_way=0) for at in range(2, 2 + len(USUAL))]
    assert first.fault in [each.fault for each in later if each is not None]


def seen(at: float, *nodes: int) -> InSync:
    return InSync(at, frozenset(nodes))


def test_a_node_is_back_when_it_has_left_and_is_in_every_isr_after_its_return() -> None:
    fault = Fired("kill", (2,), began=10.0, returned=12.0)
    history = [seen(9, 1, 2, 3), seen(10.5, 1, 2, 3), seen(11, 1, 3), seen(13, 1, 3)]
    assert back_in_sync_at(fault, history) is None
    assert back_in_sync_at(fault, [*history, seen(15, 1, 2, 3)]) == 15
    assert back_in_sync_at(fault, [seen(11, 1, 2, 3), seen(13, 1, 2, 3)]) is None
