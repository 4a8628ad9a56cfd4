"""Whole clusters under every fault at once, seed by seed: `cluster_story.py`."""

from functools import lru_cache

import pytest

from .cluster_figures import Figures, main
from .cluster_story import ClusterStory, plan_of

SEEDS = 6


@lru_cache(64)
def told(seed: int) -> Figures:
    """The figures of a story."""
    story = ClusterStory(plan_of(seed))
    story.tell()
    figures = Figures()
    figures.add(story)
    return figures


@pytest.mark.seeds(f"0-{SEEDS - 1}")
def test_a_cluster_keeps_what_it_acknowledged_and_heals(simulation_seed: int) -> None:
    assert told(simulation_seed).counts["acknowledged"] > 0


def test_one_seed_is_one_story() -> None:
    """One with a tier."""

    def trace() -> str:
        story = ClusterStory(plan_of(3))
        story.tell()
        return f"{story.counts} {story.loop.time()} {story.promises.acknowledged}"

    assert trace() == trace()


@pytest.mark.long
def test_the_stories_meet_what_they_are_about() -> None:
    figures = Figures()
    for seed in range(60):
        figures.merge(told(seed))
    print(figures)
    assert not figures.missing, f"the stories are without {figures.missing}"


def test_make_simulate_prints_one_line_of_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("cluster: no violation, no stall in ")
    assert "1 seeds" in line
    assert "rare branches" in line
