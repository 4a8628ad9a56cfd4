"""Every kind of fault has its turns, whatever is put off, and a seed plans the same again."""

from hypothesis import given, settings, strategies as st

from tierlog.bench.harness.faults.fault_runner import NOT_READY, Planned

from .planned_run import made_up, only_planned, play

counts = st.integers(0, 12)
seeds = st.text("abc", min_size=1, max_size=3)


def test_half_an_hour_gives_each_of_35_kinds_five_turns() -> None:
    turns, _ = play(made_up(storm=22, alone=13), 1_800, "seed")
    assert min(tally.fired for tally in turns.tallies.values()) >= 5


def test_a_seed_plans_the_same_again_and_another_does_not() -> None:
    faults = made_up(storm=8, alone=3)
    assert play(faults, 300, "a").events == play(faults, 300, "a").events
    assert play(faults, 300, "a").events != play(faults, 300, "b").events


@settings(max_examples=30, deadline=None)
@given(counts, counts, seeds)
def test_no_kind_is_more_than_one_turn_ahead_of_another(storm: int, alone: int, seed: str) -> None:
    turns, _ = play(made_up(storm, alone), 300, seed)
    fired = [tally.fired for tally in turns.tallies.values()]
    # One that is under way when the run ends has begun, and is not over.
    assert not fired or max(fired) - min(fired) <= 2


@settings(max_examples=30, deadline=None)
@given(counts, counts, seeds)
def test_what_needs_calm_is_alone_and_a_storm_has_two_at_once(
    storm: int, alone: int, seed: str
) -> None:
    _, events = play(made_up(storm, alone), 300, seed)
    for event in events:
        together = (event.name, *event.beside)
        assert len(together) <= 2
        assert len(together) == 1 or not any(name.startswith("alone") for name in together)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), seeds)
def test_a_kind_that_can_never_begin_holds_up_no_other(storm: int, alone: int, seed: str) -> None:
    stuck = {"stuck", "stuck-alone"}
    faults = [
        *made_up(storm, alone),
        only_planned("stuck"),
        only_planned("stuck-alone", is_alone=True),
    ]

    def can_begin(planned: Planned, at: float) -> bool:
        return planned.fault.name not in stuck

    turns, _ = play(faults, 1_800, seed, can_begin)
    for name, tally in turns.tallies.items():
        if name in stuck:
            assert (tally.fired, tally.why) == (0, "it may not")
            assert tally.skipped >= 1
        else:
            assert tally.fired >= 5


def test_a_storm_that_does_not_calm_down_gives_the_others_their_turns() -> None:
    def can_begin(planned: Planned, at: float) -> bool:
        return not planned.fault.is_alone

    turns, _ = play(made_up(storm=6, alone=6), 1_800, "seed", can_begin)
    assert all(t.fired >= 5 for name, t in turns.tallies.items() if name.startswith("storm"))
    assert all(t.skipped >= 5 for name, t in turns.tallies.items() if name.startswith("alone"))


def test_a_run_of_seconds_has_short_faults() -> None:
    turns, events = play(made_up(storm=8, alone=0), 20, "seed")
    assert turns.turns == 1
    assert len(events) >= 6


def test_a_cluster_that_stands_still_costs_nobody_a_turn() -> None:
    def can_begin(planned: Planned, at: float) -> bool:
        return not 100 < at < 400

    faults = made_up(storm=6, alone=6)
    turns, _ = play(faults, 1_800, "seed", can_begin, why=NOT_READY)
    assert all(t.fired >= 5 and t.skipped <= 1 for t in turns.tallies.values())
