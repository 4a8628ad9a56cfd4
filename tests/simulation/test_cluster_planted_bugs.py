"""The stories find every rule that is broken: `cluster_planted_bugs.py` and its neighbours."""

from itertools import chain

import pytest

from .cluster_planted_bugs import CLUSTER_BUGS, UNSEEN, find

SEEDS_AT_MOST = 500
QUICK = (
    "moves_the_high_watermark_alone",
    "answers_before_the_high_watermark",
    "elects_outside_the_isr",
)
"""Those that the first story finds at once."""
FIRST = {
FIRSTMAP}
"""The first seed that finds a bug, where it is not seed 0. A change of the stories moves them."""


@pytest.mark.parametrize("name", QUICK)
def test_a_story_finds_the_broken_rule(name: str) -> None:
    complaint = find(name, range(SEEDS_AT_MOST))
    assert complaint is not None


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(CLUSTER_BUGS.keys() - UNSEEN.keys()))
def test_the_seeds_find_the_broken_rule(name: str) -> None:
    """The seed that has found it before is told first."""
    seeds = chain([FIRST.get(name, 0)], range(SEEDS_AT_MOST))
    complaint = find(name, seeds)
    assert complaint is not None
    print(f"{name}: seed {complaint.seed}: {complaint.error}")
