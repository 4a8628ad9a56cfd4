"""Checks changes of topic configuration, and computes effective values.

An effective value comes from the first of these that sets it: the topic, this broker's dynamic
configuration, the cluster-wide one, the node's file, Kafka's defaults
(`ConfigurationControlManager`, `KafkaConfigSchema`). A change is checked as a whole: the resulting
configuration must be valid.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ....clients.config_def import ConfigType
from ....clients.errors import ErrorCode, KafkaError
from ....clients.protocol.schema import Message
from ....storage.config import TOPIC_CONFIGS, LogConfig
from ...metadata.cluster_image import ClusterImage, ConfigResource, ConfigResourceType
from ...metadata.metadata_records import (
    ELR_FEATURE,
    MIN_ISR_CONFIG,
    ClearElrRecord,
    ConfigRecord,
)
from ..brokers.broker_control import min_isr_record
from ..controller_config import ConfigSource, ControllerConfig
from .topic_synonyms import synonyms


class ConfigInForce(NamedTuple):
    """One property of a topic: its value and where the value comes from."""

    name: str
    value: str
    source: ConfigSource
    is_sensitive: bool


def validate_topic_config(
    config: ControllerConfig, before: Mapping[str, str], after: Mapping[str, str]
) -> LogConfig:
    """The `LogConfig` with the overrides `after`. Raises KafkaError(INVALID_CONFIG).

    `before` are the topic's current overrides; disabling remote storage for a topic that uses it
    requires a decision about the remote data (KIP-950).
    """
    result = LogConfig.from_properties(
        after,
        config.log_config,
        remote_storage_system_enabled=config.remote_storage_system_enabled,
    )
    was_remote = before.get("remote.storage.enable", "false").lower() == "true"
    is_disabled = was_remote and not result.remote_storage_enable
    if is_disabled and not result.remote_log_delete_on_disable:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "It is invalid to disable remote storage without deleting remote data. "
            "If you want to keep the remote data and turn to read only, please set "
            "`remote.storage.enable=true,remote.log.copy.disable=true`. "
            "If you want to disable remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`.",
        )
    return result


def alter_topic_config(
    config: ControllerConfig, image: ClusterImage, topic: str, changes: Mapping[str, str | None]
) -> list[Message]:
    """The records that make these changes to an existing topic; None removes an override.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG.
    """
    if topic not in image.topics_by_name:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist."
        )
    before = image.topic_config(topic)
    after = dict(before)
    for name, value in changes.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = value
    validate_topic_config(config, before, after)
    records: list[Message] = [
        config_record(topic, name, value)
        for name, value in changes.items()
        if before.get(name) != value
    ]
    return [*records, *cleared_elr(image, records)]


def new_topic_config(
    config: ControllerConfig, stated: Iterable[tuple[str, str | None]]
) -> dict[str, str]:
    """The overrides of a topic to be created; if a name occurs twice, the last value counts.

    Raises KafkaError(INVALID_CONFIG).
    """
    overrides: dict[str, str] = {}
    missing: list[str] = []
    for name, value in stated:
        if value is None:
            missing.append(name)
        else:
            overrides[name] = value
    if missing:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(missing)}",
        )
    validate_topic_config(config, {}, overrides)
    return overrides


def config_record(topic: str, name: str, value: str | None) -> ConfigRecord:
    """The record that sets a topic's override, or removes it if there is no value."""
    return ConfigRecord(
        resource_type=ConfigResourceType.TOPIC, resource_name=topic, name=name, value=value
    )


def topic_config_in_force(
    config: ControllerConfig, image: ClusterImage, overrides: Mapping[str, str]
) -> list[ConfigInForce]:
    """Every property of a topic with these overrides, by name."""
    effective = LogConfig.from_properties(overrides, config.log_config)
    own_dynamic = image.broker_config(config.node_id)
    all_dynamic = image.broker_config(None)
    in_force: list[ConfigInForce] = []
    for name, definition in TOPIC_CONFIGS.items():
        synonym = definition.server_synonym
        source, value = ConfigSource.DEFAULT_CONFIG, effective.value_text(name)
        if name in overrides:
            source = ConfigSource.TOPIC_CONFIG
        elif synonym is not None and synonym in own_dynamic:
            source, value = ConfigSource.DYNAMIC_BROKER_CONFIG, own_dynamic[synonym]
        elif synonym is not None and synonym in all_dynamic:
            source, value = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, all_dynamic[synonym]
        elif any(each.name in config.static_config for each in synonyms(name)):
            source = ConfigSource.STATIC_BROKER_CONFIG
        sensitive = definition.type is ConfigType.PASSWORD
        in_force.append(ConfigInForce(name, value, source, sensitive))
    return in_force


def check_min_isr(
    image: ClusterImage, resource: ConfigResource, changed: Iterable[str], after: Mapping[str, str]
) -> None:
    """Refuse a `min.insync.replicas` that differs by broker, in a cluster with ELR (KIP-966).

    The controller must know the value: it decides who may lead. `changed` are the properties that
    the request names. Raises KafkaError(INVALID_CONFIG).
    """
    if (
        not has_elr(image)
        or resource.type != ConfigResourceType.BROKER
        or MIN_ISR_CONFIG not in changed
    ):
        return
    if resource.name:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_ISR_CONFIG} cannot be altered while ELR is enabled.",
        )
    if MIN_ISR_CONFIG not in after:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_ISR_CONFIG} cannot be removed while ELR is enabled.",
        )


def cleared_elr(image: ClusterImage, records: Iterable[Message]) -> list[ClearElrRecord]:
    """What clears eligible leader replicas after changes of `min.insync.replicas` (KIP-966).

    They were eligible under another minimum: under the new one, fewer replicas may have had what
    was acknowledged (`ConfigurationControlManager.createClearElrRecordsAsNeeded`).
    """
    if not has_elr(image):
        return []
    return [
        ClearElrRecord(
            topic_name=record.resource_name
            if record.resource_type == ConfigResourceType.TOPIC
            else ""
        )
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR_CONFIG
    ]


def elr_safety_records(image: ClusterImage, min_isr: str) -> list[ConfigRecord]:
    """The changes before a cluster gets ELR: one `min.insync.replicas` for all of its brokers.

    `min_isr` is what the controller's file says, for a cluster without a value of its own
    (`ConfigurationControlManager.maybeGenerateElrSafetyRecords`).
    """
    records: list[ConfigRecord] = []
    if MIN_ISR_CONFIG not in image.broker_config(None):
        records.append(min_isr_record("", min_isr))
    records += [
        min_isr_record(resource.name, None)
        for resource, values in image.configs.items()
        if resource.type == ConfigResourceType.BROKER and resource.name
        if MIN_ISR_CONFIG in values
    ]
    return records


def has_elr(image: ClusterImage) -> bool:
    """Whether partitions of the cluster have eligible leader replicas."""
    return image.features.get(ELR_FEATURE, 0) > 0
