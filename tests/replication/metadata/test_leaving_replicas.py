"""A replica leaves a broker, or its topic ends: only the latter is the end of its remote data."""

from tierlog.replication.metadata.cluster_image import ClusterDelta
from tierlog.replication.metadata.metadata_records import PartitionChangeRecord
from tierlog.tests.replication.node import delete
from tierlog.tests.replication.slow_tier import SlowTier, tiered_node
from tierlog.tests.simulation.loop import SimulatedLoop


async def test_a_replica_that_leaves_this_broker_leaves_the_tier_to_those_that_stay(
    loop: SimulatedLoop, tier: SlowTier
) -> None:
    async with tiered_node(loop, tier, partitions=1) as node:
        image = node.controller.image
        delta = ClusterDelta(image)
        topic_id = image.topics_by_name["t"].topic_id
        moved = PartitionChangeRecord(
            partition_id=0, topic_id=topic_id, isr=[99], leader=99, replicas=[99]
        )
        delta.replay_all([moved])
        node.replicas.publish(delta.apply(image.offset + 1, 1), delta)
        assert [deleted for _, deleted in tier.stopped] == [False]


async def test_a_deleted_topic_takes_its_remote_data_along(
    loop: SimulatedLoop, tier: SlowTier
) -> None:
    async with tiered_node(loop, tier, partitions=1) as node:
        await delete(node.controller, "t")
        assert [deleted for _, deleted in tier.stopped] == [True]
