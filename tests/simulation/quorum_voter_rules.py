"""What must hold when the voters of a quorum change (KIP-853), whatever fails meanwhile.

Neighbouring voter sets differ by one voter, so that their majorities overlap, and a set follows
only a committed one, in an epoch that has committed something of its own. Each node has the set in
effect that its log says, also after a truncation or a snapshot. A leader that was removed leads
until that is committed, and not longer. A change that was answered is committed, and so it stays.
"""

from collections import Counter
from dataclasses import dataclass

from tierlog.clients.errors import ErrorCode
from tierlog.replication.raft.raft_messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from tierlog.replication.raft.raft_state import Leader, Resigned
from tierlog.replication.raft.voter_set import VoterKey, VoterSet

from .quorum_log import Snapshot
from .quorum_node import QuorumNode, VoterChange


@dataclass(slots=True)
class _Life:
    """What is remembered of one life of one node."""

    life: int
    leads_until: int = -1
    """The offset of the record that removes this leader; -1 for all others."""
    epoch: int = -1


class VoterRules:
    """See the module. Each method raises AssertionError with the numbers of the broken rule."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self._lives: dict[int, _Life] = {}
        self._recorded: dict[int, VoterSet] = {}
        """The committed voter sets by the offset of their records."""

    def before_append(self, node: QuorumNode, voters: VoterSet, epoch_start: int) -> None:
        """A leader is about to append a Voters record."""
        at, before = node.log.latest_voters
        before = before or node.voters
        assert node.is_leading, f"node {node.id} changes the voters and does not lead"
        changed = voters.keys ^ before.keys
        assert len(changed) <= 1, f"voters {before.ids} become {voters.ids} at once"
        end = node.high_watermark or 0
        assert at < end, f"the voters at {at} are not committed, and others follow them"
        assert end > epoch_start, "the voters change before anything of the epoch is committed"

    def on_committed(self, node: QuorumNode) -> None:
        """A high watermark has risen above all before it."""
        end = node.high_watermark or 0
        self._recorded.update(node.log.voter_records(end))

    def after_event(self, node: QuorumNode, silent_ms: int) -> None:
        """Check a node that has performed everything; `silent_ms`: it leads without a majority."""
        core = node.core
        assert core is not None
        voters = node.voters_in_force
        assert core.voters is voters or core.voters.keys == voters.keys, (
            f"node {node.id} has the voters {core.voters.ids}, its log {voters.ids}"
        )
        life = self._lives.get(node.id)
        if life is None or life.life != node.life:
            life = self._lives[node.id] = _Life(node.life)
        if core.is_leader and not node.is_voter:
            self._check_removed(node, life)
            return
        if life.leads_until < 0:
            return
        is_over = (node.high_watermark or 0) > life.leads_until
        is_early = isinstance(core.state, Resigned) and core.epoch == life.epoch and not is_over
        is_cut_off = silent_ms >= node.options.check_quorum_timeout_ms
        assert not is_early or node.is_leaving or is_cut_off, (
            f"node {node.id} leaves before the record at {life.leads_until} is committed"
        )
        self.counts["removed leader has left"] += is_over
        life.leads_until = -1

    def _check_removed(self, node: QuorumNode, life: _Life) -> None:
        core = node.core
        assert core is not None
        at, _ = node.log.latest_voters
        assert (node.high_watermark or 0) <= at, f"node {node.id} leads on after its removal"
        if life.leads_until < 0:
            self.counts["leader removed"] += 1
        life.leads_until, life.epoch = at, core.epoch

    def on_snapshot(self, node: QuorumNode, snapshot: Snapshot) -> None:
        """A node has written a snapshot, or is about to begin with one."""
        offsets = [at for at in self._recorded if at < snapshot.end]
        voters = self._recorded[max(offsets)] if offsets else None
        assert (voters or snapshot.voters) == snapshot.voters, (
            f"the snapshot at {snapshot.end} of node {node.id} has the voters {snapshot.voters.ids}"
        )

    def on_answer(self, node: QuorumNode, change: VoterChange, error: ErrorCode) -> None:
        """The leader answers a change."""
        name = type(change.request).__name__.removesuffix("VoterRequest").lower()
        if error is not ErrorCode.NONE:
            self.counts["voter change refused"] += 1
            return
        self.counts[f"voter {name} answered"] += 1
        request = change.request
        if isinstance(request, UpdateVoterRequest) or not request.ack_when_committed:
            return
        at, voters = node.log.latest_voters
        assert at < (node.high_watermark or 0), f"a change at {at} is answered, and not committed"
        key = VoterKey(request.voter_id, request.voter_directory_id)
        if isinstance(request, AddVoterRequest):
            assert voters.is_voter(key), f"the voters {voters.ids} lack {key.id}, which was added"
        if isinstance(request, RemoveVoterRequest):
            assert not voters.is_voter(key), f"{key.id} was removed, and is a voter"


def leads_alone(node: QuorumNode) -> bool:
    """Whether a leader needs no other voter."""
    voters = node.voters_in_force
    return remote_majority(node, voters) == 0 and isinstance(node.role, Leader)


def remote_majority(node: QuorumNode, voters: VoterSet) -> int:
    """How many others make a majority with this node."""
    return len(voters) // 2 + (0 if voters.is_voter(node.options.key) else 1)
