"""Brokers come and go, ISRs grow and shrink, leaders are elected and replicas moved, at random.

The rules of `PartitionWorld` hold at every record, with eligible leader replicas and without. In
the end, when all brokers are back, every partition has a leader and every reassignment ends.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode
from tierlog.tests.replication.control.leadership.partition_world import BROKERS, PartitionWorld

STEPS = (
    "fence",
    "unfence",
    "return cleanly",
    "return uncleanly",
    "shut down",
    "unregister",
    "lose a directory",
    "expand",
    "expand",
    "shrink",
    "ask late",
    "elect preferred",
    "elect uncleanly",
    "look",
    "reassign",
    "call off",
    "unclean",
    "min isr",
)
Step = tuple[str, int, int, Sequence[int]]
STEP = st.tuples(
    st.sampled_from(STEPS),
    st.sampled_from(BROKERS),
    st.sampled_from((0, 1)),
    st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True),
)


def take(world: PartitionWorld, step: Step) -> None:
    kind, broker_id, number, brokers = step
    partition = world.partition(number)
    match kind:
        case "expand":
            extra = broker_id if broker_id in partition.replicas else partition.replicas[0]
            world.alter_isr(number, list(dict.fromkeys((*partition.isr, extra))))
        case "shrink":
            left = [each for each in partition.isr if each != broker_id]
            world.alter_isr(number, left)
        case "ask late":
            world.alter_isr(number, brokers, is_late=True)
        case "elect preferred" | "elect uncleanly":
            world.elect(number, int(kind == "elect uncleanly"))
        case "look":
            world.look()
        case "reassign" | "call off":
            world.reassign(number, brokers if kind == "reassign" else None)
        case "unclean":
            world.configure("unclean.leader.election.enable", ["true", "false"][number])
        case "min isr":
            world.configure("min.insync.replicas", str(len(brokers)))
        case _:
            change_broker(world, step)


def change_broker(world: PartitionWorld, step: Step) -> None:
    kind, broker_id, number, _ = step
    match kind:
        case "return cleanly" | "return uncleanly":
            world.register(broker_id, is_clean=kind == "return cleanly")
        case _ if not world.is_registered(broker_id):
            pass
        case "fence":
            world.fence(broker_id)
        case "unfence":
            # A broker that has shut down registers again first.
            if not world.image.brokers[broker_id].in_controlled_shutdown:
                world.unfence(broker_id)
        case "shut down":
            world.shut_down(broker_id)
        case "unregister":
            world.unregister(broker_id)
        case _:
            world.lose_directory(broker_id, number)


@pytest.mark.parametrize("has_elr", [False, True])
def test_the_rules_hold_whatever_happens(has_elr: bool) -> None:
    @settings(max_examples=300)
    @given(st.lists(STEP, max_size=40))
    def walk(steps: list[Step]) -> None:
        world = PartitionWorld(has_elr=has_elr)
        for step in steps:
            take(world, step)
        settle(world)

    walk()


def settle(world: PartitionWorld) -> None:
    """All brokers come back, and whoever may join the ISR joins."""
    world.configure("unclean.leader.election.enable", "true")
    for broker_id in BROKERS:
        world.register(broker_id, is_clean=True)
        world.unfence(broker_id)
    world.look()
    for number in (0, 1):
        assert world.partition(number).leader >= 0
        replicas = world.partition(number).replicas
        error = world.alter_isr(number, replicas)
        assert error in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
        partition = world.partition(number)
        assert not partition.adding_replicas
        assert not partition.removing_replicas
        assert set(partition.isr) == set(partition.replicas)
