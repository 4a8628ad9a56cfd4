"""The stories of quorums find every rule that is broken: `quorum_planted_bugs.py`."""

import pytest

from tierlog.tests.simulation.quorum_planted_bugs import BUGS, find

SEEDS_AT_MOST = 500
SOON = (
    "votes_twice",
    "answers_before_the_disk",
    "asks_for_no_pre_votes",
    "leads_without_a_majority",
    "commits_with_a_shrunk_majority",
    "fetches_before_its_flush_ends",
    "fetches_twice_at_once",
)
"""Those that the first few seeds find; `make test-long` looks for all."""


@pytest.mark.parametrize("name", SOON)
def test_the_first_stories_find_a_broken_rule(name: str) -> None:
    assert find(BUGS[name], range(20)) is not None


@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_the_stories_find_every_broken_rule(name: str) -> None:
    assert find(BUGS[name], range(SEEDS_AT_MOST)) is not None
