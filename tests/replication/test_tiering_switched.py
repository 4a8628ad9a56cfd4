"""A topic's tiering is switched on and off: what the remote tier is told of it (KIP-950)."""

import pytest

from tierlog.tests.replication.broker_node import BrokerNode
from tierlog.tests.replication.node import creation
from tierlog.tests.replication.slow_tier import SlowTier, with_tier

ON = {"remote.storage.enable": "true"}
OFF = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}


@pytest.mark.scenario("2.9")
def test_the_tier_is_told_when_a_topic_is_tiered_no_more() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        await node.controller.alter_topic_config("t", OFF)
        assert [(each.topic, each.partition) for each in tier.disabled] == [("t", 0), ("t", 1)]
        assert tier.stopped == []
        told = len(tier.leaders)
        await node.controller.alter_topic_config("t", {"retention.ms": "1000", **OFF})
        assert len(tier.leaders) == told
        await node.controller.alter_topic_config("t", {"remote.storage.enable": "true"})
        assert [each.topic_id_partition.topic for each in tier.leaders[told:]] == ["t", "t"]

    with_tier(story, partitions=2)


@pytest.mark.scenario("2.9")
def test_the_tier_looks_again_when_copying_is_allowed_again() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        for value in ("true", "false"):
            told = len(tier.leaders)
            await node.controller.alter_topic_config("t", {"remote.log.copy.disable": value})
            (leader,) = tier.leaders[told:]
            assert leader.topic_id_partition.topic == "t"
        assert (tier.stopped, tier.disabled) == ([], [])

    with_tier(story, partitions=1)


def test_what_a_former_leader_left_of_an_untiered_topic_is_looked_for() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        await node.controller.create_topics(creation("plain"))
        await node.controller.create_topics(creation("once-tiered", configs=OFF))
        assert [each.topic for each in tier.disabled] == ["once-tiered"]

    with_tier(story, partitions=1)
