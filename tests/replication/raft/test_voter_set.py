"""Voters by id and directory, their majorities, and the history of their records."""

from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.raft.voter_set import Voter, VoterKey, VoterSet
from tierlog.replication.raft.voter_set_history import VoterSetHistory
from tierlog.tests.replication.raft.members import voters_of


def directory(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def dynamic(*ids: int, generation: int = 0) -> VoterSet:
    """Voters with a directory each."""
    return VoterSet(Voter(VoterKey(each, directory(100 * generation + each))) for each in ids)


def test_a_key_is_the_id_and_the_directory() -> None:
    voters = dynamic(1, 2)
    assert voters.is_voter(VoterKey(1, directory(1)))
    assert not voters.is_voter(VoterKey(1, directory(2)))
    assert not voters.is_voter(VoterKey(1))
    assert not voters.is_voter(VoterKey(3, directory(3)))


def test_a_static_voter_is_its_id_in_any_directory() -> None:
    voters = voters_of(1, 2)
    assert voters.is_voter(VoterKey(1, directory(7)))
    assert voters.is_voter(VoterKey(1))
    assert not voters.has_directories


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majorities(count: int, majority: int) -> None:
    assert voters_of(*range(count)).majority == majority


def test_voters_come_and_go_one_by_one() -> None:
    three = dynamic(1, 2).with_voter(next(iter(dynamic(3))))
    assert three == dynamic(1, 2, 3)
    assert dynamic(1, 2).with_voter(next(iter(dynamic(2, generation=1)))) is None
    assert dynamic(1, 2, 3).without_voter(VoterKey(2, directory(2))) == dynamic(1, 3)
    assert dynamic(1, 2, 3).without_voter(VoterKey(2, directory(9))) is None
    assert dynamic(1).without_voter(VoterKey(1, directory(1))) is None


def test_a_voter_changes_its_endpoints_but_not_its_key() -> None:
    (static,) = voters_of(2)
    assert dynamic(1, 2).with_updated_voter(static) is None
    moved = static._replace(key=VoterKey(2, directory(2)))
    voters = dynamic(1, 2).with_updated_voter(moved)
    assert voters is not None
    assert voters.address(2, "CONTROLLER") is not None
    assert voters.ids == (1, 2)


def majorities(voters: VoterSet) -> Iterable[frozenset[VoterKey]]:
    keys = sorted(voters.keys)
    for bits in range(1 << len(keys)):
        chosen = frozenset(key for index, key in enumerate(keys) if bits >> index & 1)
        if len(chosen) == voters.majority:
            yield chosen


_ids = st.sets(st.integers(1, 6), min_size=1, max_size=5)


@given(_ids, _ids)
def test_sets_that_overlap_share_a_voter_in_all_majorities(
    some: set[int], others: set[int]
) -> None:
    one, other = dynamic(*some), dynamic(*others)
    if one.has_overlapping_majority(other):
        for majority in majorities(one):
            assert all(majority & each for each in majorities(other))


def test_replacing_a_voters_disk_takes_two_changes() -> None:
    assert dynamic(1, 2, 3).has_overlapping_majority(dynamic(1, 2))
    assert not dynamic(1, 2, 3).has_overlapping_majority(dynamic(1))
    assert not dynamic(1, 2, 3).has_overlapping_majority(dynamic(1, 2, 4))
    assert not dynamic(1, 2, 3, 4).has_overlapping_majority(dynamic(1, 2))


def test_a_voter_set_counts_from_its_record_on() -> None:
    history = VoterSetHistory(dynamic(1))
    history.add(10, dynamic(1, 2))
    history.add(20, dynamic(1, 2, 3))
    assert history.latest == dynamic(1, 2, 3)
    assert history.latest_offset == 20
    expected = {
        -1: dynamic(1),
        9: dynamic(1),
        10: dynamic(1, 2),
        19: dynamic(1, 2),
        20: dynamic(1, 2, 3),
    }
    assert {offset: history.at_or_before(offset) for offset in expected} == expected


def test_truncation_brings_the_set_before_back() -> None:
    history = VoterSetHistory(dynamic(1))
    history.add(10, dynamic(1, 2))
    history.truncate_to(11)
    assert history.latest == dynamic(1, 2)
    history.truncate_to(10)
    assert history.latest == dynamic(1)
    history.truncate_to(0)
    assert history.latest == dynamic(1)


def test_old_sets_are_forgotten_but_the_one_in_effect_stays() -> None:
    history = VoterSetHistory(dynamic(1))
    history.add(10, dynamic(1, 2))
    history.add(20, dynamic(1, 2, 3))
    history.forget_before(15)
    assert history.at_or_before(9) is None
    assert history.at_or_before(15) == dynamic(1, 2)
    history.forget_before(30)
    assert history.at_or_before(19) is None
    assert history.latest == dynamic(1, 2, 3)


def test_a_loaded_snapshot_begins_a_new_history() -> None:
    history = VoterSetHistory(dynamic(1))
    history.add(10, dynamic(1, 2))
    history.reset(99, dynamic(4, 5, 6))
    assert history.latest == dynamic(4, 5, 6)
    assert history.at_or_before(10) is None


def test_sets_whose_majorities_do_not_meet_are_refused() -> None:
    history = VoterSetHistory(dynamic(1, 2, 3))
    with pytest.raises(ValueError, match="do not overlap"):
        history.add(10, dynamic(1, 4, 5))


def test_static_voters_get_their_directories_all_at_once() -> None:
    history = VoterSetHistory(voters_of(1, 2, 3))
    history.add(10, dynamic(1, 2, 3))
    assert history.latest.has_directories
