"""Quorums under every fault at once, seed by seed: `quorum_story.py`."""

from functools import lru_cache
from typing import ClassVar

import pytest

from tierlog.replication.raft import raft_node
from tierlog.replication.raft.raft_state import NEXT_STATES, RaftEvent, Role

from .quorum_faults import FAULTS
from .quorum_figures import main
from .quorum_story import Figures, Story, plan_of

SEEDS = 80
MORE_SEEDS = (180, 334)
"""One with an AlterPartition of an old leader epoch, and one in which a prospective voter votes."""

VERY_RARE = {(Role.FOLLOWER, RaftEvent.ONLY_VOTER)}
"""A follower becomes the only voter, and starts again before it has noticed."""


class Rows(dict[tuple[Role, RaftEvent], Role]):
    """The table of states, which notes what is looked up in it."""

    taken: ClassVar[set[tuple[Role, RaftEvent]]] = set()

    def __getitem__(self, row: tuple[Role, RaftEvent]) -> Role:
        self.taken.add(row)
        return super().__getitem__(row)


@lru_cache(SEEDS + len(MORE_SEEDS))
def run_story(seed: int) -> tuple[int, Figures]:
    """The end of what a story committed, and its figures."""
    story = Story(plan_of(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raft_node, "NEXT_STATES", Rows(NEXT_STATES))
        story.run()
    figures = Figures()
    figures.add(story)
    return story.invariants.committed_end, figures


@pytest.mark.seeds(f"0-{SEEDS - 1}")
def test_a_quorum_keeps_what_it_committed_and_heals(simulation_seed: int) -> None:
    committed, _ = run_story(simulation_seed)
    assert committed > 0


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_one_seed_is_one_story(seed: int) -> None:
    """One with static voters, one whose voters change, one with controllers and brokers."""

    def trace() -> str:
        story = Story(plan_of(seed))
        story.run()
        return f"{story.counts} {[node.log.last_digest for node in story.nodes]}"

    assert trace() == trace()


def test_the_stories_meet_what_they_are_about() -> None:
    figures = Figures()
    for seed in (*range(SEEDS), *MORE_SEEDS):
        figures.merge(run_story(seed)[1])
    print(figures)
    rows = NEXT_STATES.keys() - Rows.taken - VERY_RARE
    assert not rows, f"the stories never move by {rows}"
    missing = [name for name in FAULTS if not figures.counts[name]]
    assert not missing + figures.missing, f"the stories are without {missing + figures.missing}"


def test_make_simulate_prints_one_line_of_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["3-5"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("quorum: no violation, no stall in ")
    assert "3 seeds" in line
    assert "kill " in line
    assert "rare branches" in line
