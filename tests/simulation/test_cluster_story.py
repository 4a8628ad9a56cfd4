"""Whole clusters under every fault at once, seed by seed: `cluster_story.py`."""

import pytest

from .cluster_story import ClusterStory, plan_of

SEEDS = 10


@pytest.mark.seeds(f"0-{SEEDS - 1}")
def test_a_cluster_keeps_what_it_acknowledged_and_heals(simulation_seed: int) -> None:
    story = ClusterStory(plan_of(simulation_seed))
    story.tell()
    assert story.counts["acknowledged"] > 0


def test_one_seed_is_one_story() -> None:
    def trace() -> str:
        story = ClusterStory(plan_of(3))
        story.tell()
        return f"{story.counts} {story.loop.time()} {story.promises.acknowledged}"

    assert trace() == trace()
