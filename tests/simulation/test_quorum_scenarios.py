"""Named troubles of a quorum: those of Kafka's `RaftEventSimulationTest`, and old bugs."""

import itertools

import pytest

from tierlog.replication.raft.raft_messages import BeginQuorumEpochRequest, RaftRequest, VoteRequest

from .quorum_network import Exchange, Weather
from .quorum_node import QuorumNode
from .quorum_story import Plan, Story

CHECK_QUORUM_MS = 3000
FAILOVER_MS = 12_000
ROUND_TRIP_MS = 10


def begun(voters: int, observers: int = 0, seed: int = 1) -> Story:
    """A quorum whose leader has committed something."""
    story = Story(Plan(seed, voters, observers))
    story.begin()
    story.elect()
    return story


def leader_of(story: Story) -> QuorumNode:
    leader = story.leader
    assert leader is not None
    return leader


def others(story: Story, *nodes: QuorumNode) -> list[QuorumNode]:
    return [node for node in story.nodes if node not in nodes]


def part(story: Story, side: list[QuorumNode]) -> None:
    """Cut the links between a side and the rest."""
    for one, other in itertools.permutations(story.nodes, 2):
        if (one in side) != (other in side):
            story.network.cut((one.id, other.id))


def commits_more(story: Story, nodes: list[QuorumNode]) -> None:
    """All of these nodes come to commit something new."""
    end = story.invariants.committed_end
    story.run_until(
        lambda: all((node.high_watermark or 0) > end for node in nodes),
        FAILOVER_MS,
        f"{[node.id for node in nodes]} commit beyond {end}",
    )


@pytest.mark.parametrize("observers", range(4))
@pytest.mark.parametrize("voters", [1, 3, 5])
def test_the_first_election_ends_with_progress_on_all_nodes(voters: int, observers: int) -> None:
    story = begun(voters, observers)
    commits_more(story, story.nodes)


@pytest.mark.parametrize("voters", [3, 5])
def test_a_graceful_stop_hands_over_without_an_election_timeout(voters: int) -> None:
    story = begun(voters)
    old = leader_of(story)
    old.shut_down()
    passed = story.run_until(
        lambda: any(node.is_leading for node in others(story, old)), 4000, "a successor"
    )
    assert passed < 500
    assert old.core is not None
    story.run_until(lambda: old.core is not None and old.core.is_stopped, 4000, "the stop ends")
    old.stop_cleanly()
    commits_more(story, others(story, old))


@pytest.mark.parametrize("voters", [3, 5])
def test_a_killed_leader_is_replaced_and_comes_back_as_a_follower(voters: int) -> None:
    story = begun(voters, observers=1)
    old = leader_of(story)
    old.kill()
    commits_more(story, others(story, old))
    old.start()
    commits_more(story, story.nodes)


@pytest.mark.parametrize("voters", [3, 5])
def test_after_all_were_killed_a_majority_is_enough(voters: int) -> None:
    story = begun(voters)
    for node in story.nodes:
        node.kill()
    back = story.nodes[: voters // 2 + 1]
    for node in back:
        node.start()
    commits_more(story, back)
    story.nodes[-1].start()
    commits_more(story, [*back, story.nodes[-1]])


@pytest.mark.parametrize("voters", [3, 5])
def test_a_leader_that_is_cut_off_steps_down_and_follows_after_healing(voters: int) -> None:
    story = begun(voters)
    old = leader_of(story)
    part(story, [old])
    cut_at = story.queue.now
    commits_more(story, others(story, old))
    story.run_until(lambda: not old.is_leading, CHECK_QUORUM_MS, "the old leader steps down")
    assert story.queue.now - cut_at < CHECK_QUORUM_MS * 1.1
    story.network.heal()
    commits_more(story, story.nodes)


def test_of_five_voters_the_three_go_on() -> None:
    story = begun(5)
    two = [leader_of(story), others(story, leader_of(story))[0]]
    part(story, two)
    three = others(story, *two)
    commits_more(story, three)
    marks = [node.high_watermark for node in two]
    commits_more(story, three)
    assert [node.high_watermark for node in two] == marks
    story.network.heal()
    commits_more(story, story.nodes)


@pytest.mark.parametrize("seed", range(3))
def test_leaders_may_fail_back_to_back(seed: int) -> None:
    story = begun(5, seed=seed)
    for _ in range(6):
        old = leader_of(story)
        old.kill()
        commits_more(story, others(story, old))
        old.start()
    commits_more(story, story.nodes)


@pytest.mark.parametrize("sends", [True, False], ids=["sends nothing", "hears nothing"])
def test_a_leader_with_half_a_link_loses_its_place(sends: bool) -> None:
    story = begun(3)
    old = leader_of(story)
    for node in others(story, old):
        story.network.cut((old.id, node.id) if sends else (node.id, old.id))
    commits_more(story, others(story, old))
    story.network.heal()
    commits_more(story, story.nodes)


def test_a_voter_that_is_cut_off_does_not_raise_the_epoch() -> None:
    """Pre-vote (KIP-996): it asks in vain, and comes back without deposing anyone."""
    story = begun(3, observers=1)
    leader = leader_of(story)
    epoch = leader.persisted.epoch
    cut_off = others(story, leader)[0]
    part(story, [cut_off])
    story.run_for(60_000)
    assert cut_off.persisted.epoch == epoch
    story.network.heal()
    commits_more(story, story.nodes)
    assert leader.is_leading
    assert leader.persisted.epoch == epoch


def test_beside_voters_without_pre_votes_elections_go_on() -> None:
    """An upgrade from versions before KIP-996: the vote is held without asking first."""
    story = Story(Plan(1, 3, 0))
    for voter in story.voters[:2]:
        voter.knows_pre_vote = False
    story.begin()
    old = story.elect()
    old.kill()
    commits_more(story, others(story, old))
    old.start()
    commits_more(story, story.nodes)
    assert story.counts["pre-vote not known"]


def test_a_voter_that_hears_nothing_does_not_disturb_the_others() -> None:
    story = begun(5)
    leader = leader_of(story)
    epoch = leader.persisted.epoch
    deaf = others(story, leader)[0]
    for node in others(story, deaf):
        story.network.cut((node.id, deaf.id))
    story.run_for(60_000)
    assert leader.is_leading
    assert leader.persisted.epoch == epoch
    story.network.heal()
    commits_more(story, story.nodes)


def test_a_leader_heard_by_observers_alone_steps_down() -> None:
    """KAFKA-15489: fetches of observers keep no leader in its place."""
    story = begun(3, observers=2)
    old = leader_of(story)
    for voter in others(story, old):
        if voter.is_voter:
            story.network.cut((voter.id, old.id), (old.id, voter.id))
    story.run_until(lambda: not old.is_leading, CHECK_QUORUM_MS * 1.1, "it steps down")
    story.network.heal()
    commits_more(story, story.nodes)


@pytest.mark.parametrize("seed", range(4))
def test_a_voter_that_lost_its_disk_is_filled_again(seed: int) -> None:
    story = begun(3, seed=seed)
    story.run_for(3000)
    robbed = others(story, leader_of(story))[0]
    robbed.kill()
    robbed.lose_disk()
    story.invariants.forgive(robbed)
    robbed.start()
    story.heal()
    assert robbed.log.end_offset >= story.invariants.committed_end


def test_a_sole_voter_leads_for_ever() -> None:
    story = begun(1, observers=2)
    leader = leader_of(story)
    epoch = leader.persisted.epoch
    part(story, [leader])
    story.run_for(120_000)
    assert leader.is_leading
    assert leader.persisted.epoch == epoch
    story.network.heal()
    commits_more(story, story.nodes)


@pytest.mark.parametrize("seed", range(8))
def test_a_leader_that_lost_its_tail_never_leads_its_epoch_again(seed: int) -> None:
    """KAFKA-17333, KAFKA-18379: it may not follow itself either when its old messages arrive."""
    story = begun(3, seed=seed)
    old = leader_of(story)
    epoch = old.persisted.epoch
    part(story, [old])
    for _ in range(5):
        story.write(old)
    old.kill()
    old.start()
    assert not old.is_leading
    former = (old.options.cluster_id, old.id, old.options.directory_id)
    of_its_past: tuple[RaftRequest, ...] = (
        BeginQuorumEpochRequest(*former, leader_id=old.id, leader_epoch=epoch),
        VoteRequest(
            *former,
            replica_id=old.id,
            replica_directory_id=old.options.directory_id,
            replica_epoch=epoch,
            last_offset=1 << 30,
            last_offset_epoch=epoch - 1,
        ),
    )
    for number, request in enumerate(of_its_past):
        old.receive(Exchange(old, old, 1_000_000 + number, request, 0, -1))
    story.run_for(10)
    assert not old.is_leading
    assert old.core is not None
    assert old.core.leader_id != old.id
    story.run_for(8000)
    assert not old.is_leading
    story.network.heal()
    commits_more(story, story.nodes)


@pytest.mark.parametrize("seed", range(6))
def test_answers_that_come_twice_or_late_change_nothing(seed: int) -> None:
    """KAFKA-13141, KAFKA-18723: also after a truncation, and in another epoch."""
    story = begun(3, observers=1, seed=seed)
    story.network.weather = Weather(duplicate_responses=1.0, slow_messages=0.05)
    for _ in range(4):
        old = leader_of(story)
        part(story, [old])
        for _ in range(4):
            story.write(old)
        story.run_for(6000)
        story.network.heal()
        story.elect()
    story.heal()
    logs = {node.log.digest_at(node.applied) for node in story.nodes}
    assert len(logs) == 1
    assert story.counts["truncated"]
    assert story.counts["duplicated response"]


def test_an_empty_voter_and_an_observer_catch_up_from_a_snapshot() -> None:
    story = begun(3, observers=1)
    leader = leader_of(story)
    late = others(story, leader)
    for node in late[1:]:
        node.kill()
    story.run_for(2000)
    leader.take_snapshot(trims=True)
    late[0].take_snapshot(trims=True)
    for node in late[1:]:
        node.start()
    story.heal()
    assert story.counts["snapshot loaded"] >= 2


@pytest.mark.parametrize("fault", ["is_full", "fail_flush", "fail_persist"])
def test_a_disk_that_fails_costs_no_more_than_its_node(fault: str) -> None:
    story = begun(3)
    bad = leader_of(story)
    setattr(bad.disk, fault, True)
    if fault == "fail_persist":
        bad.resign()  # the next epoch must be written
    commits_more(story, others(story, bad))
    story.run_until(lambda: bad.core is None, 60_000, "its process ends")
    bad.start()
    commits_more(story, story.nodes)
