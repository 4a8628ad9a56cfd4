"""A broker dies and returns in a cluster of ten thousand partitions; no turn of the loop is long.

One event loop decides, replays, changes the roles of replicas, and answers the heartbeats and the
requests of the quorum in between. What a turn does is bounded by counts; this measures that the
counts are right. The time is processor time of the thread, in proportion to how slow the machine is
at that time, so other load on it plays little part; a phase that is too long is measured again.
"""

import asyncio
from typing import NamedTuple

import pytest

from tierlog.replication.control import controller_loop, standby_replay
from tierlog.replication.control.brokers import broker_transitions
from tierlog.replication.leader import hosted_partitions
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.metadata_records import PartitionChangeRecord
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import EPOCH_MS
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

from .many_partitions import BROKERS, ELECTIONS_EVERY_S, Node, running
from .measured_turns import Turn, Turns, measured_turns, slowness

TURN_MS_MAX = 50
FEW = 50
"""Records of a phase that have nothing to do with partitions."""


class Phase(NamedTuple):
    """What happened in one part of the story."""

    longest: Turn
    records: int
    changed: int
    """How many partitions have another leader or another ISR."""


class Story:
    """The phases of one run."""

    def __init__(self, turns: Turns) -> None:
        self.phases: dict[str, Phase] = {}
        self._turns = turns
        self._end = 0

    def end_phase(self, what: str, node: Node, changed: int) -> None:
        records, self._end = node.log.end_offset - self._end, node.log.end_offset
        longest = self._turns.take_longest()
        longest = longest._replace(cpu_ms=longest.cpu_ms / slowness())
        self.phases[what] = Phase(longest, records, changed)

    async def death_and_return(self, node: Node) -> None:
        """The middle of the story: broker 2 dies, is fenced, and has all back in the end."""
        many = len(node.partitions)
        led = sum(partition.leader == 2 for partition in node.partitions)
        await node.keep_alive(1, 3, for_s=12)
        await node.replicas.until_settled()
        assert node.image.brokers[2].fenced
        assert not any(2 in each.isr or each.leader in (-1, 2) for each in node.partitions)
        self.end_phase("death, fencing and elections", node, many)
        await node.join(2, incarnation=2)
        self.end_phase("return", node, 0)
        await node.widen(leader=1)
        await node.widen(leader=3)
        await node.replicas.until_settled()
        assert all(len(partition.isr) == 3 for partition in node.partitions)
        self.end_phase("ISR", node, many)
        await node.keep_alive(*BROKERS, for_s=ELECTIONS_EVERY_S)
        await node.replicas.until_settled()
        assert sum(partition.leader == 2 for partition in node.partitions) == led
        self.end_phase("preferred leaders", node, led)

    async def start(self, node: Node) -> None:
        """The end: the node starts again, and its whole log becomes committed at once."""
        self.end_phase("replay of the metadata log", node, 0)
        # A broker opens its logs in a thread.
        node.logs.start(EPOCH_MS)
        await asyncio.sleep(0)
        self._turns.take_longest()
        await node.host()
        self.end_phase("roles of replicas at a start", node, 0)


def story(partitions: int) -> dict[str, Phase]:
    """The whole story, in a loop of its own."""

    async def tell(loop: SimulatedLoop) -> dict[str, Phase]:
        disk = SimulatedDisk()
        with measured_turns() as turns:
            story = Story(turns)
            node = Node(loop, disk)
            async with running(node):
                for broker_id in BROKERS:
                    await node.join(broker_id)
                await node.host()
                turns.take_longest()
                await node.create(partitions)
                await node.replicas.until_settled()
                changed = partitions + len(node.image.topics_by_name)
                story.end_phase("creation of topics", node, changed)
                await story.death_and_return(node)
            again = Node(loop, disk)
            # A process opens its metadata log before it serves anybody.
            await asyncio.sleep(0)
            turns.take_longest()
            async with running(again):
                await story.start(again)
                assert again.partitions == node.partitions
        return story.phases

    return simulate(tell)


def too_long(phases: dict[str, Phase]) -> dict[str, Turn]:
    return {
        what: phase.longest for what, phase in phases.items() if phase.longest.cpu_ms > TURN_MS_MAX
    }


def out_of_proportion(phases: dict[str, Phase]) -> dict[str, Phase]:
    """The phases with more records than one for each partition that changed, and a few."""
    return {
        what: phase
        for what, phase in phases.items()
        if not phase.changed <= phase.records <= phase.changed + FEW
    }


def test_a_death_and_a_return_hold_up_nobody() -> None:
    phases = story(10_000)
    assert not out_of_proportion(phases)
    long = too_long(phases)
    if long:
        long = {what: turn for what, turn in too_long(story(10_000)).items() if what in long}
    assert not long


def test_without_the_limits_of_turns_they_are_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    without_limit = 1_000_000
    monkeypatch.setattr(broker_transitions, "RECORDS_PER_PART", without_limit)
    monkeypatch.setattr(broker_transitions, "FOR_A_PART", without_limit)
    monkeypatch.setattr(controller_loop, "_RECORDS_PER_TURN", without_limit)
    monkeypatch.setattr(standby_replay, "STEPS_A_TURN", without_limit)
    monkeypatch.setattr(hosted_partitions, "CHANGED_AT_ONCE", without_limit)
    assert {
        "death, fencing and elections",
        "ISR",
        "replay of the metadata log",
        "roles of replicas at a start",
    } <= too_long(story(6_000)).keys()


def test_records_without_a_change_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that returns gets a record in partitions that it changes nothing of."""

    def with_broker(image: ClusterImage, broker_id: int, *_: object) -> list[PartitionChangeRecord]:
        if not (image.topics_by_id and image.brokers[broker_id].fenced):
            return []
        topic = next(iter(image.topics_by_id.values()))
        return [
            PartitionChangeRecord(topic_id=topic.topic_id, partition_id=number)
            for number in range(2 * FEW)
        ]

    monkeypatch.setattr(broker_transitions, "with_broker", with_broker)
    assert list(out_of_proportion(story(1_000))) == ["return"]
