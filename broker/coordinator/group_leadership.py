"""Which groups are this broker's: follows the leaders of `__consumer_offsets` in the image.

Subscribe it behind the replica manager, whose logs it reads from.
"""

from ...replication.cluster_image import ClusterDelta, ClusterImage
from .group import GroupCoordinator
from .offsets_topic import OFFSETS_TOPIC


class GroupLeadership:
    """Tells the coordinator which partitions it has won and lost, and which topics are gone."""

    def __init__(self, coordinator: GroupCoordinator, node_id: int) -> None:
        self._coordinator = coordinator
        self._node_id = node_id
        # Partition to the leader epoch in which its log was read.
        self._led: dict[int, int] = {}

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """A new image. A change that leaves leader and epoch alone (the ISR's) means nothing."""
        deleted = [topic.name for topic in delta.deleted_topics.values()]
        if OFFSETS_TOPIC in deleted:
            self._resign(list(self._led))
        for topic in delta.changed_topics.values():
            if topic.name == OFFSETS_TOPIC:
                self._follow(image)
        gone = [name for name in deleted if name != OFFSETS_TOPIC]
        if gone:
            self._coordinator.on_topics_deleted(gone)

    def _follow(self, image: ClusterImage) -> None:
        topic = image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            return
        self._coordinator.partition_count = len(topic.partitions)
        for partition, state in topic.partitions.items():
            leads = state.leader == self._node_id
            if not leads:
                self._resign([partition])
            elif self._led.get(partition) != state.leader_epoch:
                self._led[partition] = state.leader_epoch
                self._coordinator.on_elected(partition)

    def _resign(self, partitions: list[int]) -> None:
        for partition in partitions:
            if self._led.pop(partition, None) is not None:
                self._coordinator.on_resigned(partition)
