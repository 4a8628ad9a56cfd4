"""What Kafka's log allows is never held against it, and a long history takes no longer per act."""

import random
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.bench.harness.checker.anomalies import LEGAL, Anomaly
from tierlog.bench.harness.checker.checker import judge
from tierlog.bench.harness.checker.history import Event, decode_event, transactions

from .model_log import ModelLog


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(0, 60))
def test_a_history_of_the_model_shows_only_what_is_always_legal(
    data: st.DataObject, processes: int, acts: int
) -> None:
    def draw(below: int) -> int:
        return data.draw(st.integers(0, below - 1))

    model = ModelLog(draw, processes)
    for _ in range(acts):
        model.act()
    model.end()
    judged = judge(transactions(model.events))
    assert judged.illegal == []
    assert set(judged.counts) <= LEGAL


def drawn(acts: int, seed: int = 7) -> list[Event]:
    """A long history of the model."""
    model = ModelLog(random.Random(seed).randrange, processes=5)
    for _ in range(acts):
        model.act()
    model.end()
    return model.events


def test_five_thousand_acts_show_what_is_legal_and_nothing_else() -> None:
    judged = judge(transactions(drawn(5_000)))
    assert judged.illegal == []
    # So it is not for want of anything to see.
    assert judged.counts[Anomaly.INT_SEND_SKIP] > 50


def calls(work: Callable[[], object]) -> int:
    """How many functions are called and returned from."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_the_work_grows_as_the_history_does() -> None:
    short, long = drawn(1_000), drawn(8_000)

    def work(events: list[Event]) -> int:
        return calls(lambda: judge(transactions(events)))

    assert work(long) / work(short) < 1.25 * len(long) / len(short)


@pytest.mark.parametrize("seed", range(5))
def test_a_record_that_is_taken_away_is_missed(seed: int) -> None:
    """One of the reads of the last reader disappears: it was lost."""
    events = drawn(300, seed)
    chance = random.Random(seed)
    at = chance.choice([at for at in range(len(events)) if len(events[at].reads) > 2])
    event = events[at]
    hole = chance.randrange(1, len(event.reads) - 1)
    fields = decode_event(event.encoded())
    shorter = (*event.reads[:hole], *event.reads[hole + 1 :])
    events[at] = Event(
        fields.at, fields.process, fields.act, fields.phase, fields.transaction, reads=shorter
    )
    counts = judge(transactions(events)).counts
    assert Anomaly.INT_POLL_SKIP in counts or Anomaly.LOST_WRITE in counts
