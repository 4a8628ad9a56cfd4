"""Checks at startup: the tier that tiered topics need, and the metadata topic of the tier."""

import logging
from collections.abc import Container

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...replication.control.configs.tier_metadata_topic import mend
from ...replication.control.controller import Controller
from ...replication.metadata.cluster_image import ClusterImage
from ...replication.topic_names import REMOTE_LOG_METADATA_TOPIC
from ...storage.files import Files
from ..config.config import BrokerConfig
from ..config.mount_config import MOUNTED_TOPICS_FILE

_log = logging.getLogger(__name__)

_TIERED = "remote.storage.enable"


def check_tier_places(config: BrokerConfig, files: Files) -> None:
    """Raise KafkaError(INVALID_CONFIG) for what can never be a tier, or for a missing package."""
    mounts = [mount.location for mount in config.mounts]
    own = [] if config.remote_storage is None else [config.remote_storage]
    if mounts or own:
        from ...tiering.store.impossible_tiers import check_place, check_writable
        from ...tiering.store.tier_packages import check_packages

        for location in own:
            check_writable(location)
        for location in own + mounts:
            check_packages(location)
            check_place(location, files, config.log_dirs)


def has_mounts(config: BrokerConfig, files: Files) -> bool:
    """Whether topics are mounted, or former mounts have left topics that must be removed."""
    return bool(config.mounts) or _had_mounts(files, config.log_dirs[0])


def mounted_topics(files: Files, directory: str) -> Container[Uuid]:
    """The ids of the topics that a previous run of this broker had mounted."""
    if not _had_mounts(files, directory):
        return ()
    from .mounted_topics_file import MountedTopicsFile

    return MountedTopicsFile(files, directory).mount_of.keys()


def _had_mounts(files: Files, directory: str) -> bool:
    return files.exists(f"{directory}/{MOUNTED_TOPICS_FILE}")


def check_tier_is_there(
    image: ClusterImage, is_tiered: bool, mounted: Container[Uuid] = ()
) -> None:
    """Refuse to serve tiered topics without the tier that stores a part of their records.

    Topics of a mounted tier do not need this broker's tier.
    Raises KafkaError(INVALID_CONFIG) with Kafka's message.
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


async def mend_metadata_topic(controller: Controller) -> None:
    """Change the metadata topic's configuration if it would delete records. Raises KafkaError."""
    mended = await controller.decide(lambda image: mend(controller.config, image))
    if mended:
        _log.warning(
            "The configuration of %s would have deleted remote log metadata; changed it to: %s",
            REMOTE_LOG_METADATA_TOPIC,
            ", ".join(f"{name}={value}" for name, value in mended.items()),
        )
