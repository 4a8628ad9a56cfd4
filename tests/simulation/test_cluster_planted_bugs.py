"""The stories find the rules that are broken: `cluster_planted_bugs.py` and its neighbours."""

from itertools import chain

import pytest

from .cluster_planted_bugs import CLUSTER_BUGS, UNSEEN, find

SEEDS_AT_MOST = 500
SEEN_AT_LEAST = 50
FIRST = {
    "answers_a_marker_before_its_offsets": 2,
    "answers_before_others_have_it": 0,
    "answers_before_the_high_watermark": 0,
    "appends_late_answers": 28,
    "checks_no_min_isr": 7,
    "cleans_up_finished_copies": 3,
    "commits_aborted_offsets": 3,
    "completes_before_it_has_caught_up": 27,
    "counts_a_diverging_fetch": 62,
    "counts_the_committed_isr": 64,
    "cuts_nothing": 0,
    "deletes_above_the_copied_offset": 3,
    "elects_fenced_brokers": 0,
    "elects_outside_the_isr": 0,
    "elects_uncleanly": 35,
    "fences_and_moves_nothing": 3,
    "finishes_before_the_upload_ends": 10,
    "follows_only_once": 21,
    "forgets_pending_offsets_at_load": 3,
    "forgets_producers_as_a_follower": 1,
    "forgets_the_life_before": 8,
    "forgets_to_raise_the_leader_epoch": 0,
    "gives_the_same_producer_id_twice": 1,
    "keeps_epochs_at_truncation": 5,
    "keeps_its_memory_of_a_former_term": 26,
    "keeps_producers_at_truncation": 0,
    "keeps_replicas_that_were_moved_away": 0,
    "keeps_the_copied_offset_of_an_old_term": 3,
    "keeps_what_followers_had_in_former_terms": 0,
    "knows_no_epochs": 0,
    "leads_on_in_the_tier": 21,
    "loads_nothing": 0,
    "loses_markers_with_their_coordinator": 34,
    "moves_the_high_watermark_alone": 0,
    "moves_the_high_watermark_over_the_shrunk_isr": 0,
    "removes_nothing_of_deleted_topics": 28,
    "sees_no_divergence": 0,
    "shows_offsets_before_their_commit": 3,
    "shows_what_is_not_committed": 5,
    "stops_without_handing_over": 7,
    "syncs_nothing": 30,
    "takes_a_lost_connection_for_marked": 40,
    "takes_its_end_for_committed": 0,
    "takes_its_end_for_the_high_watermark": 0,
    "takes_pending_offsets_for_stable": 0,
    "takes_who_is_behind_into_the_isr": 10,
    "truncates_to_the_high_watermark": 2,
    "verifies_nothing": 1,
    "votes_for_any_log": 22,
    "writes_duplicates": 1,
}
"""A seed that finds a bug, which is told first. A change of the code may move it: then all are."""
QUICK = (
    "answers_before_the_high_watermark",
    "deletes_above_the_copied_offset",
    "elects_outside_the_isr",
    "fences_and_moves_nothing",
    "forgets_pending_offsets_at_load",
    "forgets_to_raise_the_leader_epoch",
    "knows_no_epochs",
    "moves_the_high_watermark_alone",
    "truncates_to_the_high_watermark",
)
"""Those whose stories complain within a second of processor time."""


def _params() -> list[object]:
    return [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.long)
        for name in sorted(FIRST)
    ]


@pytest.mark.parametrize("name", _params())
def test_the_seeds_find_the_broken_rule(name: str) -> None:
    complaint = find(name, chain([FIRST[name]], range(SEEDS_AT_MOST)))
    assert complaint is not None
    print(f"{name}: seed {complaint.seed}: {complaint.error}")


def test_each_planted_bug_is_seen_or_explained() -> None:
    assert FIRST.keys() | UNSEEN.keys() == CLUSTER_BUGS.keys()
    assert not FIRST.keys() & UNSEEN.keys()
    assert len(FIRST) >= SEEN_AT_LEAST
    assert max(FIRST.values()) < SEEDS_AT_MOST
