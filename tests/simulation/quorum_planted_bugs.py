"""Rules of the quorum, each broken once: the stories must find every one of them.

A bug is planted by replacing a small part of the raft core. Where the core has two defences against
a mistake, the bug breaks both: the stories judge what a node does, not how it is written.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pytest

from tierlog.replication.raft import elections, first_state, following, leading, named_leader
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.named_leader import Verdict
from tierlog.replication.raft.raft_actions import (
    Action,
    AppendFetched,
    Destination,
    Flush,
    Persist,
    Send,
    Token,
)
from tierlog.replication.raft.raft_messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftRequest,
    VoteRequest,
)
from tierlog.replication.raft.raft_node import RaftNode
from tierlog.replication.raft.raft_state import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    State,
    Unattached,
    Votes,
)
from tierlog.replication.raft.replica_progress import ReplicaProgress
from tierlog.replication.raft.request_manager import RequestManager
from tierlog.replication.raft.voter_set import Address, VoterKey, VoterSet
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch

from .controller_planted_bugs import CONTROLLER_BUGS
from .quorum_planted_voter_bugs import VOTER_BUGS
from .quorum_story import Story, plan_of

Plant = Callable[[pytest.MonkeyPatch], None]


class Found(NamedTuple):
    """The first story that found a bug, and what it said."""

    seed: int
    error: AssertionError


def find(name: str, seeds: Iterable[int]) -> Found | None:
    """Tell stories over a broken core until one of them complains.

    A story without what the bug is about is passed over.
    """
    with pytest.MonkeyPatch.context() as patch:
        BUGS[name](patch)
        for seed in seeds:
            plan = plan_of(seed)
            is_about = (name not in CONTROLLER_BUGS or plan.has_controllers) and (
                name not in VOTER_BUGS or plan.changes_voters
            )
            try:
                if is_about:
                    Story(plan).run()
            except AssertionError as error:
                return Found(seed, error)
    return None


# A part that nothing but the core itself may use, to break it.
_private: Callable[[object, str], Any] = getattr


def votes_twice(patch: pytest.MonkeyPatch) -> None:
    """A second candidate of the epoch gets a vote, too."""
    original = elections.can_grant_vote

    def can_grant_vote(
        state: State, key: VoterKey, *, is_up_to_date: bool, is_pre_vote: bool
    ) -> bool:
        is_free = isinstance(state, Unattached) and state.leader_id is None
        if is_free and is_up_to_date and not is_pre_vote:
            state.voted_key = None
        return original(state, key, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)

    patch.setattr(elections, "can_grant_vote", can_grant_vote)


def forgets_its_vote_when_it_starts(patch: pytest.MonkeyPatch) -> None:
    """The vote is on the disk, and nobody reads it."""
    original = first_state.start

    def start(node: RaftNode, persisted: ElectionState, now_ms: int) -> None:
        original(node, persisted._replace(voted_key=None), now_ms)

    patch.setattr(first_state, "start", start)


def votes_for_any_log(patch: pytest.MonkeyPatch) -> None:
    """The candidate's log may be behind the voter's."""
    original = elections.can_grant_vote

    def can_grant_vote(
        state: State, key: VoterKey, *, is_up_to_date: bool, is_pre_vote: bool
    ) -> bool:
        return original(state, key, is_up_to_date=True, is_pre_vote=is_pre_vote)

    patch.setattr(elections, "can_grant_vote", can_grant_vote)


def votes_for_the_longer_log(patch: pytest.MonkeyPatch) -> None:
    """The longer log wins, whatever the epoch of its last record."""
    original = elections.handle_vote

    def handle_vote(node: RaftNode, token: Token, request: VoteRequest, now_ms: int) -> None:
        limit = request.replica_epoch - (0 if request.pre_vote else 1)
        epoch = min(node.log.last_epoch, limit)
        original(node, token, request._replace(last_offset_epoch=epoch), now_ms)

    patch.setattr(elections, "handle_vote", handle_vote)


def votes_as_a_follower(patch: pytest.MonkeyPatch) -> None:
    """A candidate gets the vote of a node that follows the leader of this epoch."""
    original = elections.can_grant_vote

    def can_grant_vote(
        state: State, key: VoterKey, *, is_up_to_date: bool, is_pre_vote: bool
    ) -> bool:
        if isinstance(state, Follower) and not is_pre_vote:
            return is_up_to_date
        return original(state, key, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)

    patch.setattr(elections, "can_grant_vote", can_grant_vote)


def answers_before_the_disk(patch: pytest.MonkeyPatch) -> None:
    """The epoch and the vote are written after the answer that tells of them."""
    original = RaftNode.take_actions

    def take_actions(node: RaftNode) -> list[Action]:
        return sorted(original(node), key=lambda action: isinstance(action, Persist))

    patch.setattr(RaftNode, "take_actions", take_actions)


def persists_nothing(patch: pytest.MonkeyPatch) -> None:
    """`quorum-state` is never written."""
    original = RaftNode.act

    def act(node: RaftNode, action: Action) -> None:
        if not isinstance(action, Persist):
            original(node, action)

    patch.setattr(RaftNode, "act", act)


def grants_pre_votes_under_a_live_leader(patch: pytest.MonkeyPatch) -> None:
    """A follower that hears of its leader helps others to depose it."""
    original = elections.can_grant_vote

    def can_grant_vote(
        state: State, key: VoterKey, *, is_up_to_date: bool, is_pre_vote: bool
    ) -> bool:
        if isinstance(state, Follower) and is_pre_vote:
            return is_up_to_date
        return original(state, key, is_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote)

    patch.setattr(elections, "can_grant_vote", can_grant_vote)


def asks_for_no_pre_votes(patch: pytest.MonkeyPatch) -> None:
    """Every election timeout raises the epoch."""

    def poll_prospective(node: RaftNode, _: Prospective, now_ms: int) -> None:
        node.become_candidate(now_ms)

    patch.setattr(elections, "poll_prospective", poll_prospective)


def is_elected_by_half(patch: pytest.MonkeyPatch) -> None:
    """Of five voters, two are enough."""
    patch.setattr(VoterSet, "majority", property(lambda voters: max(1, len(voters) // 2)))


def campaigns_in_its_old_epoch(patch: pytest.MonkeyPatch) -> None:
    """A candidate does not raise the epoch."""

    def become_candidate(node: RaftNode, now_ms: int) -> None:
        deadline_ms = node.election_deadline(now_ms)
        votes = Votes(node.voters, node.options.key)
        node.begin(
            Candidate(
                epoch=max(1, node.epoch),
                voted_key=node.options.key,
                deadline_ms=deadline_ms,
                votes=votes,
            ),
            is_durable=True,
        )

    patch.setattr(RaftNode, "become_candidate", become_candidate)


def leads_on_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A leader that comes back leads its own epoch again, with what is left of its log."""
    original = first_state.start

    def start(node: RaftNode, persisted: ElectionState, now_ms: int) -> None:
        if persisted.leader_id != node.options.node_id:
            original(node, persisted, now_ms)
            return
        start_offset = node.log.end_offset
        progress = ReplicaProgress(
            node.options.key,
            node.voters,
            start_offset,
            node.options.check_quorum_timeout_ms,
            now_ms,
        )
        leader = Leader(
            epoch=persisted.epoch,
            leader_id=node.options.node_id,
            epoch_start_offset=start_offset,
            progress=progress,
            begin_epoch_deadline_ms=now_ms,
        )
        node.begin(leader, is_durable=False)

    patch.setattr(first_state, "start", start)


def follows_itself(patch: pytest.MonkeyPatch) -> None:
    """One that resigned is told of its own past, and believes it (KAFKA-18379)."""
    original = named_leader.follow_named_leader

    def follow_named_leader(
        node: RaftNode, leader_id: int | None, epoch: int, address: Address | None, now_ms: int
    ) -> None:
        own = node.options.node_id
        if leader_id == own and address and isinstance(node.state, Resigned):
            follower = Follower(
                epoch=node.epoch, leader_id=own, leader_address=address, deadline_ms=now_ms + 2000
            )
            node.begin(follower, is_durable=True)
            return
        original(node, leader_id, epoch, address, now_ms)

    patch.setattr(named_leader, "follow_named_leader", follow_named_leader)
    patch.setattr(following, "follow_named_leader", follow_named_leader)


def leads_without_a_majority(patch: pytest.MonkeyPatch) -> None:
    """No check quorum: who is cut off leads for ever."""
    patch.setattr(ReplicaProgress, "check_quorum_deadline_ms", property(lambda _: None))


def is_kept_by_observers(patch: pytest.MonkeyPatch) -> None:
    """Fetches of observers count for check quorum (KAFKA-15489)."""

    original = ReplicaProgress.heard_from

    def heard_from(progress: ReplicaProgress, _: VoterKey, now_ms: int) -> None:
        for voter in progress.voter_statuses():
            original(progress, VoterKey(voter.replica_id, voter.replica_directory_id), now_ms)

    patch.setattr(ReplicaProgress, "heard_from", heard_from)


def _announces(place: Callable[[int], int]) -> Callable[[ReplicaProgress], bool]:
    def update(progress: ReplicaProgress) -> bool:
        ends = sorted((each.log_end_offset for each in progress.voter_statuses()), reverse=True)
        offset = ends[place(len(ends))]
        start: int = _private(progress, "_epoch_start_offset")
        if offset <= max(start, progress.high_watermark or 0):
            return False
        progress.high_watermark = offset
        return True

    return update


def commits_with_a_shrunk_majority(patch: pytest.MonkeyPatch) -> None:
    """One voter less than a majority is enough."""
    update = _announces(lambda voters: max(0, voters // 2 - 1))
    patch.setattr(ReplicaProgress, "_update_high_watermark", update)


def commits_an_earlier_epoch(patch: pytest.MonkeyPatch) -> None:
    """What earlier epochs left is committed without a record of this one."""
    original = ReplicaProgress.__init__

    def begin(
        progress: ReplicaProgress,
        own: VoterKey,
        voters: VoterSet,
        _: int,
        timeout_ms: int,
        now_ms: int,
    ) -> None:
        original(progress, own, voters, -1, timeout_ms, now_ms)

    patch.setattr(ReplicaProgress, "__init__", begin)


def counts_its_unsynced_end(patch: pytest.MonkeyPatch) -> None:
    """The leader counts itself before its flush."""
    original = ReplicaProgress.leader_advanced

    def leader_advanced(progress: ReplicaProgress, end: int, _: int, now_ms: int) -> bool:
        return original(progress, end, end, now_ms)

    patch.setattr(ReplicaProgress, "leader_advanced", leader_advanced)


def counts_a_diverging_log(patch: pytest.MonkeyPatch) -> None:
    """The offset of a fetch counts, whatever lies below it (KAFKA-13141)."""
    original = leading.handle_fetch

    def handle_fetch(node: RaftNode, token: Token, request: FetchRequest, now_ms: int) -> None:
        state = node.state
        key = VoterKey(request.replica_id, request.replica_directory_id)
        is_of_epoch = request.current_leader_epoch == node.epoch
        if isinstance(state, Leader) and is_of_epoch and key.id != node.options.node_id:
            offset = min(request.fetch_offset, node.log.end_offset)
            if state.progress.fetched(key, offset, now_ms):
                leading.high_watermark_moved(node, state)
        original(node, token, request, now_ms)

    patch.setattr(leading, "handle_fetch", handle_fetch)


def believes_the_leaders_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A follower takes the leader's high watermark, though its own log ends before."""

    usable = _private(following, "_usable")

    def append(node: RaftNode, response: FetchResponse) -> None:
        batches = usable(node, response.records)
        if batches:
            node.act(AppendFetched(batches))
            node.log_will_change()
        if response.high_watermark >= 0:
            node.advance_high_watermark(response.high_watermark)

    patch.setattr(following, "_append", append)


def fetches_before_its_flush_ends(patch: pytest.MonkeyPatch) -> None:
    """A voter's fetch promises what is not synced yet."""
    original = RaftNode.flush

    def flush(node: RaftNode) -> bool:
        original(node)
        return True

    patch.setattr(RaftNode, "flush", flush)


def never_flushes(patch: pytest.MonkeyPatch) -> None:
    """A follower relies on the page cache."""
    original = RaftNode.act

    def act(node: RaftNode, action: Action) -> None:
        if not isinstance(action, Flush) or isinstance(node.state, Leader):
            original(node, action)

    patch.setattr(RaftNode, "act", act)
    patch.setattr(following, "_may_fetch", _may_fetch_unsynced)


def _may_fetch_unsynced(node: RaftNode) -> bool:
    return not (node.requests.has_any_in_flight or node.is_log_stale)


def does_not_truncate(patch: pytest.MonkeyPatch) -> None:
    """Where its log diverges, a follower goes on as if it did not."""

    def truncate(_: RaftNode, _leader_end: OffsetAndEpoch) -> None:
        """Do nothing."""

    patch.setattr(following, "_truncate", truncate)


def truncates_to_its_start(patch: pytest.MonkeyPatch) -> None:
    """A follower truncates everything that it has, committed or not."""

    def truncate(node: RaftNode, _: OffsetAndEpoch) -> None:
        original(node, OffsetAndEpoch(node.log.start_offset, 0))

    original = _private(following, "_truncate")
    patch.setattr(following, "_truncate", truncate)


def appends_late_answers(patch: pytest.MonkeyPatch) -> None:
    """The answer to a fetch of an earlier state or epoch is appended (KAFKA-18723)."""
    sent = WeakKeyDictionary[RequestManager, dict[int, Send]]()
    original_send, original_take = RequestManager.send, RequestManager.take
    original_handle = following.handle_fetch_response
    append = _private(following, "_append")

    def send(
        manager: RequestManager, destination: Destination, request: RaftRequest, now_ms: int
    ) -> Send:
        result = original_send(manager, destination, request, now_ms)
        if isinstance(request, FetchRequest):
            sent.setdefault(manager, {})[result.request_id] = result
        return result

    def take(manager: RequestManager, request_id: int) -> Send | None:
        awaited = original_take(manager, request_id)
        return awaited or sent.get(manager, {}).get(request_id)

    def handle_fetch_response(
        node: RaftNode, request: FetchRequest, response: FetchResponse, now_ms: int
    ) -> Verdict:
        if response.records and isinstance(node.state, Follower) and not node.is_log_stale:
            append(node, response)
            return Verdict.DONE
        return original_handle(node, request, response, now_ms)

    patch.setattr(RequestManager, "send", send)
    patch.setattr(RequestManager, "take", take)
    patch.setattr(following, "handle_fetch_response", handle_fetch_response)


def fetches_twice_at_once(patch: pytest.MonkeyPatch) -> None:
    """A fetch goes to a bootstrap server while one to the leader is in flight."""

    def send_fetch(node: RaftNode, state: Follower, now_ms: int) -> None:
        if node.is_log_stale or not (not node.options.can_be_voter or node.flush()):
            return
        server = node.requests.any_ready(following.bootstrap_servers(node), node.random)
        if node.requests.has_any_in_flight and server is not None:
            node.send(server, request(node), now_ms)
        original(node, state, now_ms)

    original, request = _private(following, "_send_fetch"), _private(following, "_fetch_request")
    patch.setattr(following, "_send_fetch", send_fetch)


def loads_half_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """The first chunk of a snapshot is taken for all of it."""
    original = following.handle_fetch_snapshot_response

    def handle(
        node: RaftNode, request: FetchSnapshotRequest, response: FetchSnapshotResponse, now_ms: int
    ) -> Verdict:
        return original(node, request, response._replace(size=response.position + 1), now_ms)

    patch.setattr(following, "handle_fetch_snapshot_response", handle)


QUORUM_BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        votes_twice,
        forgets_its_vote_when_it_starts,
        votes_for_any_log,
        votes_for_the_longer_log,
        votes_as_a_follower,
        answers_before_the_disk,
        persists_nothing,
        grants_pre_votes_under_a_live_leader,
        asks_for_no_pre_votes,
        is_elected_by_half,
        campaigns_in_its_old_epoch,
        leads_on_after_a_restart,
        follows_itself,
        leads_without_a_majority,
        is_kept_by_observers,
        commits_with_a_shrunk_majority,
        commits_an_earlier_epoch,
        counts_its_unsynced_end,
        counts_a_diverging_log,
        believes_the_leaders_high_watermark,
        fetches_before_its_flush_ends,
        never_flushes,
        does_not_truncate,
        truncates_to_its_start,
        appends_late_answers,
        fetches_twice_at_once,
        loads_half_a_snapshot,
    )
}
"""Of the quorum with the voters that it began with."""

BUGS: dict[str, Plant] = {**QUORUM_BUGS, **VOTER_BUGS, **CONTROLLER_BUGS}
