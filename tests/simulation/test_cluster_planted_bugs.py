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
    "removes_nothing_of_deleted_topics": 28,
    "syncs_nothing": 30,
    "counts_the_committed_isr": 37,
    "finishes_before_the_upload_ends": 10,
    "completes_before_it_has_caught_up": 27,
    "elects_uncleanly": 35,
    "follows_only_once": 6,
    "writes_duplicates": 1,
    "loses_markers_with_their_coordinator": 3,
    "forgets_producers_as_a_follower": 1,
    "verifies_nothing": 1,
    "takes_who_is_behind_into_the_isr": 10,
    "shows_offsets_before_their_commit": 3,
    "commits_aborted_offsets": 3,
    "answers_a_marker_before_its_offsets": 1,
    "shows_what_is_not_committed": 5,
    "stops_without_handing_over": 2,
    "forgets_pending_offsets_at_load": 1,
    "gives_the_same_producer_id_twice": 1,
    "keeps_the_copied_offset_of_an_old_term": 3,
    "deletes_above_the_copied_offset": 3,
    "cleans_up_finished_copies": 10,
    "leads_on_in_the_tier": 21,
    "votes_for_any_log": 22,
}
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
