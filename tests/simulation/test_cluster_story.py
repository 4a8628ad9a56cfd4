"""Whole clusters under every fault at once, seed by seed: `cluster_story.py`."""

import os
import subprocess
import sys
from functools import lru_cache

import pytest

from .cluster_figures import Figures, main
from .cluster_story import ClusterStory, plan_of

SEEDS = 6
SEED_WITH_TIER = "7"


@lru_cache(64)
def run_story(seed: int) -> Figures:
    """The figures of a story."""
    story = ClusterStory(plan_of(seed))
    story.run()
    figures = Figures()
    figures.add(story)
    return figures


@pytest.mark.seeds(f"0-{SEEDS - 1}")
def test_a_cluster_keeps_what_it_acknowledged_and_heals(simulation_seed: int) -> None:
    assert run_story(simulation_seed).counts["acknowledged"] > 0


@pytest.mark.slow
def test_one_seed_is_one_story_whatever_the_order_of_sets() -> None:
    """One with a tier, told by two processes that hash texts in different ways."""

    def digest(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tierlog.tests.simulation.cluster_figures", SEED_WITH_TIER]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.rpartition("digest ")[2]

    first = digest("1")
    assert len(first.strip()) == 8
    assert first == digest("2")


@pytest.mark.long
def test_the_stories_meet_what_they_are_about() -> None:
    figures = Figures()
    for seed in range(60):
        figures.merge(run_story(seed))
    print(figures)
    assert not figures.missing, f"the stories are without {figures.missing}"


def test_make_simulate_prints_one_line_of_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("cluster: no violation, no stall in ")
    assert "1 seeds" in line
    assert "rare branches" in line
