"""Shared by tests: records folded into a cluster image."""

from tierlog.clients.protocol.schema import Message
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage


def fold(image: ClusterImage, *records: Message) -> ClusterImage:
    delta = ClusterDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset + len(records), 1)
