"""Quorums under every fault at once, seed by seed: `quorum_story.py`."""

from functools import cache
from typing import ClassVar

import pytest

from tierlog.replication.raft import raft_node
from tierlog.replication.raft.raft_state import NEXT_STATES, RaftEvent, Role
from tierlog.tests.simulation.quorum_faults import FAULTS
from tierlog.tests.simulation.quorum_story import Figures, Story, plan_of

RARE = (
    "truncated",
    "snapshot loaded",
    "unsynced tail lost",
    "late request",
    "duplicated response",
    "slow flush",
    "slow quorum-state",
    "full disk in append",
    "full disk in quorum-state",
    "failed flush",
    "failed quorum-state",
    "pre-vote not known",
    "voters recorded",
)
"""Things that must happen somewhere in a small set of seeds."""


MEMBERSHIP = {(Role.FOLLOWER, RaftEvent.ONLY_VOTER)}
"""Rows of the table of states that only a change of the voters takes."""


class Rows(dict[tuple[Role, RaftEvent], Role]):
    """The table of states, which notes what is looked up in it."""

    taken: ClassVar[set[tuple[Role, RaftEvent]]] = set()

    def __getitem__(self, row: tuple[Role, RaftEvent]) -> Role:
        self.taken.add(row)
        return super().__getitem__(row)


@cache
def told(seed: int) -> Story:
    story = Story(plan_of(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raft_node, "NEXT_STATES", Rows(NEXT_STATES))
        story.tell()
    return story


@pytest.mark.seeds("0-39", long="40-1039")
def test_a_quorum_keeps_what_it_committed_and_heals(simulation_seed: int) -> None:
    assert told(simulation_seed).invariants.committed_end > 0


def test_one_seed_is_one_story() -> None:
    def trace(seed: int) -> str:
        story = Story(plan_of(seed))
        story.tell()
        figures = Figures()
        figures.add(story)
        return f"{figures} {[node.log.last_digest for node in story.nodes]}"

    assert trace(3) == trace(3)


def test_the_stories_meet_what_they_are_about() -> None:
    figures = Figures()
    # Seed 58 has a vote that is granted by a voter that asks for pre-votes.
    for seed in (*range(40), 58):
        figures.add(told(seed))
    print(figures)
    rows = NEXT_STATES.keys() - Rows.taken - MEMBERSHIP
    assert not rows, f"the stories never move by {rows}"
    missing = [name for name in (*FAULTS, *RARE) if not figures.counts[name]]
    assert not missing, f"the stories are without {missing}"
