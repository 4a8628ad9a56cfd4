"""Decides on AlterConfigs and IncrementalAlterConfigs.

A resource changes as a whole or not at all; each has its own result. The resulting configuration
of a topic, a group or a subscription must be valid; a broker's properties were checked by the
broker that forwarded the request (`ConfigurationControlManager`).
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ....clients.config_def import ConfigDef, ConfigType
from ....clients.errors import ErrorCode, KafkaError
from ....clients.protocol.schema import Message
from ....storage.config import TOPIC_CONFIGS
from ...metadata.cluster_image import ClusterImage, ConfigResource, ConfigResourceType
from ...metadata.metadata_records import ConfigRecord
from ...topic_names import validate_topic_name
from ..access.scram_control import SECRET_CONFIG
from ..controller_config import RECORDS_PER_OPERATION_MAX, ControllerConfig, Decision
from .config_control import check_min_isr, cleared_elr, validate_topic_config
from .resource_configs import GROUP_CONFIGS, validate_client_metrics, validate_group_config
from .tier_metadata_topic import check_is_kept

_DIGITS_MAX = 11
"""Of a 32-bit number with its sign."""


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with a value (`AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one property."""

    name: str
    operation: int
    value: str | None


class ConfigAlteration(NamedTuple):
    """A resource and its changes; `replaces` removes all properties that are not among them.

    `broker_lists` are the definitions of a broker's list properties.
    """

    resource: ConfigResource
    changes: Sequence[ConfigChange]
    replaces: bool = False
    broker_lists: Mapping[str, ConfigDef] = {}


AlterationResults = Sequence[KafkaError | None]
"""The error of each alteration, or None, in order."""


def alter_configs(
    config: ControllerConfig,
    image: ClusterImage,
    alterations: Sequence[ConfigAlteration],
    validate_only: bool,
) -> Decision[AlterationResults]:
    """Decide on each alteration separately."""
    records: list[Message] = []
    results: list[KafkaError | None] = []
    for alteration in alterations:
        try:
            changed = _decide(config, image, alteration)
            if len(records) + len(changed) > RECORDS_PER_OPERATION_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"One request may change at most {RECORDS_PER_OPERATION_MAX} properties.",
                )
        except KafkaError as error:
            results.append(error)
            continue
        records += changed
        results.append(None)
    records += cleared_elr(image, records)
    return Decision([] if validate_only else records, results)


def _decide(
    config: ControllerConfig, image: ClusterImage, alteration: ConfigAlteration
) -> list[Message]:
    resource = alteration.resource
    before = image.configs.get(resource, {})
    after = {} if alteration.replaces else dict(before)
    if resource.type == ConfigResourceType.BROKER:
        _keep_secret(alteration, before, after)
    apply_changes(after, alteration.changes, _definitions(alteration))
    names = {**before, **after}
    stated = [change.name for change in alteration.changes]
    removed = names.keys() - after.keys() if alteration.replaces else ()
    check_min_isr(image, resource, (*stated, *removed), after)
    _validate(config, image, resource, before, after)
    # A broker's property is written again: what it names on the broker may have changed
    # (KAFKA-14136).
    again = frozenset(stated) if resource.type == ConfigResourceType.BROKER else frozenset[str]()
    return [
        ConfigRecord(
            resource_type=resource.type,
            resource_name=resource.name,
            name=name,
            value=after.get(name),
        )
        for name in {**names, **dict.fromkeys(again)}
        if name in again or before.get(name) != after.get(name)
    ]


def _keep_secret(
    alteration: ConfigAlteration, before: Mapping[str, str], after: dict[str, str]
) -> None:
    """Leave the cluster's secret as it is, which clients neither see nor set.

    Without it, or with one that they know, they could find out who is a user of SCRAM.
    """
    if any(change.name == SECRET_CONFIG for change in alteration.changes):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{SECRET_CONFIG} is set by the controller alone."
        )
    if SECRET_CONFIG in before:
        after[SECRET_CONFIG] = before[SECRET_CONFIG]


def _definitions(alteration: ConfigAlteration) -> Mapping[str, ConfigDef]:
    resource_type = alteration.resource.type
    if resource_type == ConfigResourceType.TOPIC:
        return TOPIC_CONFIGS
    # Subscriptions have none here: Kafka can't append to their lists either.
    return GROUP_CONFIGS if resource_type == ConfigResourceType.GROUP else alteration.broker_lists


def apply_changes(
    values: dict[str, str], changes: Sequence[ConfigChange], definitions: Mapping[str, ConfigDef]
) -> None:
    """Change `values` in place.

    Raises KafkaError(INVALID_CONFIG) if a value is appended to, or subtracted from, a property
    that is not a list.
    """
    for name, number, value in changes:
        try:
            operation = ConfigOperation(number)
        except ValueError:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        if operation is ConfigOperation.DELETE or value is None:
            values.pop(name, None)
        elif operation is ConfigOperation.SET:
            values[name] = value
        else:
            values[name] = _changed_list(operation, definitions.get(name), values, name, value)


def _changed_list(
    operation: ConfigOperation,
    definition: ConfigDef | None,
    values: Mapping[str, str],
    name: str,
    value: str,
) -> str:
    if definition is None or definition.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {name} because its type is not LIST.",
        )
    stated = values.get(name, definition.default or "")
    items = [item.strip() for item in stated.split(",") if item.strip()]
    named = [item.strip() for item in value.split(",")]
    if operation is ConfigOperation.APPEND:
        items += [item for item in named if item not in items]
    else:
        items = [item for item in items if item not in named]
    return ",".join(items)


def _validate(
    config: ControllerConfig,
    image: ClusterImage,
    resource: ConfigResource,
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> None:
    kind, name = resource
    if kind == ConfigResourceType.TOPIC:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        validate_topic_name(name)
        if name not in image.topics_by_name:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
        check_is_kept(config, name, validate_topic_config(config, before, after))
    elif kind == ConfigResourceType.GROUP:
        validate_group_config(name, after, config.static_config)
    elif kind == ConfigResourceType.CLIENT_METRICS:
        validate_client_metrics(name, after)
    elif kind == ConfigResourceType.BROKER and name:
        _check_node(image, name)


def _check_node(image: ClusterImage, name: str) -> None:
    """Only nodes that are registered have properties (`ConfigResourceExistenceChecker`)."""
    if len(name) > _DIGITS_MAX or not name.removeprefix("-").isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid broker name {name}")
    if int(name) not in image.brokers and int(name) not in image.controllers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")
