"""A topic's tiering is switched on and off: what the remote tier is told of it (KIP-950)."""

import pytest

from tierlog.tests.replication.node import creation
from tierlog.tests.replication.slow_tier import SlowTier, tiered_node
from tierlog.tests.simulation.loop import SimulatedLoop

ON = {"remote.storage.enable": "true"}
OFF = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}


@pytest.mark.scenario("2.9")
async def test_the_tier_is_notified_when_a_topic_is_tiered_no_more(
    loop: SimulatedLoop, tier: SlowTier
) -> None:
    async with tiered_node(loop, tier, partitions=2) as node:
        await node.controller.alter_topic_config("t", OFF)
        assert [(each.topic, each.partition) for each in tier.disabled] == [("t", 0), ("t", 1)]
        assert tier.stopped == []
        before = len(tier.leaders)
        await node.controller.alter_topic_config("t", {"retention.ms": "1000", **OFF})
        assert len(tier.leaders) == before
        await node.controller.alter_topic_config("t", {"remote.storage.enable": "true"})
        assert [each.topic_id_partition.topic for each in tier.leaders[before:]] == ["t", "t"]


@pytest.mark.scenario("2.9")
async def test_the_tier_looks_again_when_copying_is_allowed_again(
    loop: SimulatedLoop, tier: SlowTier
) -> None:
    async with tiered_node(loop, tier, partitions=1) as node:
        for value in ("true", "false"):
            before = len(tier.leaders)
            await node.controller.alter_topic_config("t", {"remote.log.copy.disable": value})
            (leader,) = tier.leaders[before:]
            assert leader.topic_id_partition.topic == "t"
        assert (tier.stopped, tier.disabled) == ([], [])


async def test_what_a_former_leader_left_of_an_untiered_topic_is_looked_for(
    loop: SimulatedLoop, tier: SlowTier
) -> None:
    async with tiered_node(loop, tier, partitions=1) as node:
        await node.controller.create_topics(creation("plain"))
        await node.controller.create_topics(creation("once-tiered", configs=OFF))
        assert [each.topic for each in tier.disabled] == ["once-tiered"]
