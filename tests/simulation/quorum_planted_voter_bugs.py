"""Rules of changes of the voters, each broken once (cluster.md 1.2, 1.5, 1.7; KIP-853)."""

from collections.abc import Callable
from typing import Any

import pytest

from tierlog.replication.raft import elections, following, leading, voter_changes
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_actions import Action
from tierlog.replication.raft.raft_node import RaftNode
from tierlog.replication.raft.raft_state import Leader
from tierlog.replication.raft.replica_progress import Replica, ReplicaProgress
from tierlog.replication.raft.voter_set import VoterKey, VoterSet
from tierlog.replication.raft.voter_set_history import VoterSetHistory

Plant = Callable[[pytest.MonkeyPatch], None]
_private: Callable[[object, str], Any] = getattr


def removes_two_voters_at_once(patch: pytest.MonkeyPatch) -> None:
    """A change follows another one that is not committed."""

    def check_quorum(node: RaftNode, *_: object) -> None:
        state = node.state
        if isinstance(state, Leader) and state.progress.high_watermark is not None:
            state.change = None

    patch.setattr(voter_changes, "_check_quorum", check_quorum)


def changes_voters_before_its_epoch_commits(patch: pytest.MonkeyPatch) -> None:
    """A new leader changes the voters before it knows what is committed."""
    original = _private(voter_changes, "_check_quorum")

    def check_quorum(node: RaftNode, *verb: object) -> object:
        state = node.state
        assert isinstance(state, Leader)
        is_new = state.progress.high_watermark is None and state.change is None
        return None if is_new else original(node, *verb)

    patch.setattr(voter_changes, "_check_quorum", check_quorum)


def counts_itself_outside_the_voters(patch: pytest.MonkeyPatch) -> None:
    """A leader that was removed still counts for the high watermark."""

    def update(progress: ReplicaProgress) -> bool:
        voters = list(progress.voter_statuses())
        own: VoterKey = _private(progress, "_own")
        replica = progress.replica(own)
        ends = [each.log_end_offset for each in voters if each.replica_id != own.id]
        ends = sorted([*ends, -1 if replica is None else replica.end_offset], reverse=True)
        offset = ends[len(voters) // 2]
        start: int = _private(progress, "_epoch_start_offset")
        if offset <= max(start, progress.high_watermark or 0):
            return False
        progress.high_watermark = offset
        return True

    patch.setattr(ReplicaProgress, "_update_high_watermark", update)


def leads_on_after_its_removal(patch: pytest.MonkeyPatch) -> None:
    """A leader that was removed never resigns."""
    patch.setattr(ReplicaProgress, "is_leader_voter", property(lambda _: True))


def leaves_before_its_removal_commits(patch: pytest.MonkeyPatch) -> None:
    """A leader that is removed resigns at once."""
    original = leading.poll_leader

    def poll_leader(node: RaftNode, state: Leader, now_ms: int) -> None:
        if state.progress.is_leader_voter:
            original(node, state, now_ms)
        else:
            node.resign(now_ms)

    patch.setattr(leading, "poll_leader", poll_leader)


def answers_a_change_of_voters_at_once(patch: pytest.MonkeyPatch) -> None:
    """A change is answered when it is appended."""
    reply = _private(voter_changes, "_reply")

    def finish_change(node: RaftNode, state: Leader, _: int) -> None:
        if state.change is not None:
            token, state.change = state.change.token, None
            reply(node, token)

    patch.setattr(voter_changes, "finish_change", finish_change)


def keeps_truncated_voters(patch: pytest.MonkeyPatch) -> None:
    """Voters stay in effect when their record is truncated."""

    def truncate_to(_: VoterSetHistory, _offset: int) -> None:
        """Do nothing."""

    patch.setattr(VoterSetHistory, "truncate_to", truncate_to)


def forgets_the_voters_of_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Who loads a snapshot keeps the voters that it had."""
    original = RaftCore.handle_snapshot_loaded

    def loaded(core: RaftCore, now_ms: int, _: VoterSet | None = None) -> list[Action]:
        return original(core, now_ms)

    patch.setattr(RaftCore, "handle_snapshot_loaded", loaded)


def writes_the_latest_voters_into_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """A snapshot has the voters of the log's end, not those of its own end."""

    def voters_at(core: RaftCore, _: int) -> VoterSet:
        return core.voters

    patch.setattr(RaftCore, "voters_at", voters_at)


def knows_a_voter_by_its_id_alone(patch: pytest.MonkeyPatch) -> None:
    """A node with a new disk counts as the voter that it was."""

    def voter(progress: ReplicaProgress, key: VoterKey) -> Replica | None:
        voters: dict[int, Replica] = _private(progress, "_voters")
        return voters.get(key.id)

    patch.setattr(ReplicaProgress, "_voter", voter)


def holds_no_elections_once_removed(patch: pytest.MonkeyPatch) -> None:
    """A removed leader keeps its longer log, and holds no election: two voters stop each other."""
    is_voter: property = _private(RaftNode, "is_voter")
    for module in (elections, following):
        patch.setattr(module, "may_be_elected", is_voter.fget)


VOTER_BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        removes_two_voters_at_once,
        changes_voters_before_its_epoch_commits,
        counts_itself_outside_the_voters,
        leads_on_after_its_removal,
        leaves_before_its_removal_commits,
        answers_a_change_of_voters_at_once,
        keeps_truncated_voters,
        forgets_the_voters_of_a_snapshot,
        writes_the_latest_voters_into_a_snapshot,
        knows_a_voter_by_its_id_alone,
        holds_no_elections_once_removed,
    )
}
