"""Topics that need the remote tier, looked at before a broker serves without one."""

from collections.abc import Container

from ..clients.errors import ErrorCode, KafkaError
from ..clients.kafka_uuid import Uuid
from ..replication.cluster_image import ClusterImage

_TIERED = "remote.storage.enable"


def check_tier_is_there(
    image: ClusterImage, is_tiered: bool, mounted: Container[Uuid] = ()
) -> None:
    """Refuse to serve topics of which a part cannot be reached.

    Those of a mounted tier do not need ours.
    Raises KafkaError(INVALID_CONFIG) with Kafka's sentence.
    """
    if is_tiered:
        return
    for name, topic in image.topics_by_name.items():
        if topic.topic_id in mounted:
            continue
        if image.topic_config(name).get(_TIERED, "").strip().lower() == "true":
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"You have to delete all topics with the property {_TIERED}=true before disabling"
                f" tiered storage cluster-wide ({name} has it).",
            )
