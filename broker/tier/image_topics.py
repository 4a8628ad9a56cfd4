"""What the remote log manager must hear of the cluster's topics, from its image."""

from collections.abc import Callable, Collection

from ...clients.kafka_uuid import Uuid
from ...replication.metadata.cluster_image import ClusterImage
from ...tiering.metadata.metadata_events import METADATA_TOPIC
from .deletion_proof import Allocation, DeletionProofs


class ImageTopics:
    """The existing and the deleted topics, from the cluster image; of a process alone."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self.image = image

    def has_metadata_topic(self) -> bool:
        return METADATA_TOPIC in self.image().topics_by_name

    def watched_partitions(self) -> Collection[int] | None:
        return None

    async def settle(self, topic_ids: Collection[Uuid]) -> None:
        """Does nothing: a process alone has every deletion on record."""

    def was_deleted(self, topic_id: Uuid) -> bool:
        return topic_id in self.image().deleted_topic_ids


class MemberTopics(ImageTopics):
    """The topics of a cluster of several processes.

    Each broker looks for deleted topics in the metadata partitions that it leads: together they
    read each of them, and when a broker is gone the next leader looks.
    """

    def __init__(
        self, broker_id: int, image: Callable[[], ClusterImage], allocate: Allocation
    ) -> None:
        """`allocate` allocates producer ids by a record of the active controller."""
        super().__init__(image)
        self._broker_id = broker_id
        self._proofs = DeletionProofs(broker_id, image, allocate)

    def watched_partitions(self) -> Collection[int] | None:
        topic = self.image().topics_by_name.get(METADATA_TOPIC)
        if topic is None:
            return ()
        return [
            at for at, partition in topic.partitions.items() if partition.leader == self._broker_id
        ]

    async def settle(self, topic_ids: Collection[Uuid]) -> None:
        await self._proofs.prove(topic_ids)

    def was_deleted(self, topic_id: Uuid) -> bool:
        return super().was_deleted(topic_id) or self._proofs.has(topic_id)
