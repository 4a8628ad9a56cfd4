"""Protects `__remote_log_metadata` while this cluster's remote tier uses it.

The topic is the only record of what is in the tier. So, unlike Kafka, which lets any client write
to the topic, delete it or shorten its retention:

- only this broker's own producer writes to it, identified by a client id that no other client
  can guess (`ReplicaManager.is_metadata_writer`);
- its records are kept for as long as the broker's configuration requires;
- its partition count, which determines the partition of a segment's events, cannot change;
- it can be deleted only once the tier is switched off.

A cluster without a tier, or with its metadata elsewhere, treats it like any other topic.
"""

from collections.abc import Mapping

from ....clients.errors import ErrorCode, KafkaError
from ....storage.config import LogConfig
from ...metadata.cluster_image import ClusterImage
from ...topic_names import REMOTE_LOG_METADATA_TOPIC as TOPIC
from ..controller_config import ControllerConfig, Decision
from .config_control import alter_topic_config

_WHY = "only this topic records what the remote tier of this cluster holds"


def check_may_delete(config: ControllerConfig, topic: str) -> None:
    """Refuse to delete the topic. Raises KafkaError(POLICY_VIOLATION)."""
    if topic == TOPIC and config.tier_metadata_retention_ms is not None:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{TOPIC} cannot be deleted: {_WHY}. Set remote.log.storage.system.enable=false first.",
        )


def check_may_grow(config: ControllerConfig, topic: str) -> None:
    """Refuse to add partitions to the topic. Raises KafkaError(POLICY_VIOLATION)."""
    if topic == TOPIC and config.tier_metadata_retention_ms is not None:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Cannot add partitions to {TOPIC}: the existing remote log metadata could no "
            "longer be found.",
        )


def check_is_kept(config: ControllerConfig, topic: str, result: LogConfig) -> None:
    """Refuse a configuration that would lose records. Raises KafkaError(INVALID_CONFIG)."""
    wrong = _wrong(config, topic, result)
    if wrong:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{TOPIC} requires {_stated_value(wrong)}: {_WHY}.",
        )


def mend(config: ControllerConfig, image: ClusterImage) -> Decision[Mapping[str, str]]:
    """Correct the topic's configuration, if it exists; the answer is the corrections."""
    if TOPIC not in image.topics_by_name:
        return Decision([], {})
    result = LogConfig.from_properties(image.topic_config(TOPIC), config.log_config)
    wrong = _wrong(config, TOPIC, result)
    return Decision(alter_topic_config(config, image, TOPIC, wrong) if wrong else [], wrong)


def _wrong(config: ControllerConfig, topic: str, result: LogConfig) -> dict[str, str]:
    """The properties that would lose records, with their required values."""
    least_ms = config.tier_metadata_retention_ms
    if topic != TOPIC or least_ms is None:
        return {}
    wrong: dict[str, str] = {}
    if result.cleanup_policy != ("delete",):
        wrong["cleanup.policy"] = "delete"
    if result.retention_ms >= 0 and not 0 <= least_ms <= result.retention_ms:
        wrong["retention.ms"] = str(least_ms)
    if result.retention_bytes >= 0:
        wrong["retention.bytes"] = "-1"
    if result.remote_storage_enable:
        wrong["remote.storage.enable"] = "false"
    return wrong


def _stated_value(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
