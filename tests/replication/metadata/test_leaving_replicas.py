"""A replica leaves a broker, or its topic ends: only the latter is the end of its remote data."""

from tierlog.replication.metadata.cluster_image import ClusterDelta
from tierlog.replication.metadata.metadata_records import PartitionChangeRecord
from tierlog.tests.replication.broker_node import BrokerNode
from tierlog.tests.replication.node import delete
from tierlog.tests.replication.slow_tier import SlowTier, with_tier


def test_a_replica_that_leaves_this_broker_leaves_the_tier_to_those_that_stay() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        image = node.controller.image
        delta = ClusterDelta(image)
        topic_id = image.topics_by_name["t"].topic_id
        moved = PartitionChangeRecord(
            partition_id=0, topic_id=topic_id, isr=[99], leader=99, replicas=[99]
        )
        delta.replay_all([moved])
        node.replicas.publish(delta.apply(image.offset + 1, 1), delta)
        assert [deleted for _, deleted in tier.stopped] == [False]

    with_tier(story, partitions=1)


def test_a_deleted_topic_takes_its_remote_data_along() -> None:
    async def story(node: BrokerNode, tier: SlowTier) -> None:
        await delete(node.controller, "t")
        assert [deleted for _, deleted in tier.stopped] == [True]

    with_tier(story, partitions=1)
