"""Who adds, removes and updates voters of a simulated quorum, at any time, under any leader."""

from typing import TYPE_CHECKING

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.raft.raft_messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoterChangeRequest,
    VoterChangeResponse,
)
from tierlog.replication.raft.raft_options import SUPPORTED_KRAFT_VERSIONS
from tierlog.replication.raft.voter_set import Address

from .quorum_log import LISTENER
from .quorum_network import PORT
from .quorum_node import QuorumNode, VoterChange

if TYPE_CHECKING:
    from .quorum_story import Story

CHANGE_EVERY_MS = 1500
VOTERS_MAX = 5


class VoterAdmin:
    """See the module."""

    def __init__(self, story: "Story") -> None:
        self._story = story

    def change_now_and_then(self) -> None:
        """Change the voters until the story heals; now and then two changes at once."""
        story = self._story
        if not story.is_chaotic:
            return
        leaders = [node for node in story.leaders if node.is_idle and not node.is_paused]
        if leaders:
            leader = story.chance.choice(leaders)
            for _ in range(story.chance.choice((1, 1, 1, 2))):
                leader.change_voters(VoterChange(self._change(leader), self._note))
        story.queue.after(story.chance.uniform(0, 2 * CHANGE_EVERY_MS), self.change_now_and_then)

    def _note(self, response: VoterChangeResponse | UpdateVoterResponse) -> None:
        """The rules have checked the answer; nobody else needs it."""

    def _change(self, leader: QuorumNode) -> VoterChangeRequest | UpdateVoterRequest:
        chance, story = self._story.chance, self._story
        voters = leader.voters_in_force
        nodes = [node for node in story.nodes if node.options.can_be_voter]
        others = [node for node in nodes if not voters.is_voter(node.options.key)]
        voter = chance.choice(list(voters)).key
        timeout_ms = chance.choice((500, 5000, 30_000))
        is_patient = chance.random() < 0.8
        what = chance.random()
        gone = [each.key for each in voters if all(node.options.key != each.key for node in nodes)]
        if what < 0.15:
            address = Address(f"node{voter.id}", PORT + chance.randrange(3))
            return UpdateVoterRequest(
                None,
                leader.persisted.epoch,
                *voter,
                listeners=((LISTENER, address),),
                kraft_version=SUPPORTED_KRAFT_VERSIONS,
            )
        if gone:
            # The disk with this directory is lost. No other voter is to go before that one.
            return RemoveVoterRequest(None, *gone[0], timeout_ms, is_patient)
        if others and len(voters) < VOTERS_MAX and what < 0.7:
            node = chance.choice(others)
            return self._add(node.id, node.options.directory_id, timeout_ms, is_patient=is_patient)
        if what < 0.75:
            voter = leader.options.key
        return RemoveVoterRequest(None, *voter, timeout_ms, is_patient)

    def _add(
        self, node_id: int, directory_id: Uuid, timeout_ms: int, *, is_patient: bool
    ) -> AddVoterRequest:
        listeners = ((LISTENER, Address(f"node{node_id}", PORT)),)
        return AddVoterRequest(None, node_id, directory_id, listeners, timeout_ms, is_patient)
