"""DescribeConfigs (key 32), versions 1-4: what topics and this broker are set to, and by whom.

1 shows synonyms: every property that could have given the value, the strongest first (KIP-226).
3 shows types and, if asked, documentation (KIP-569).

Of the broker's properties those are shown that tierlog acts on, and those that its file states;
a name that nobody knows belongs to a plugin, may be a secret, and is shown without its value.
Broker properties cannot be altered while the broker runs, so all of them are read-only.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ...clients.config_def import ConfigDef, ConfigType
from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ...replication.cluster_image import ConfigResourceType
from ...replication.controller_config import ConfigSource
from ...replication.topic_names import validate_topic_name
from ...storage.config import TOPIC_CONFIGS, LogConfig
from ..config_values import TABLES
from ..context import BrokerContext, RequestContext

_UNKNOWN_TYPE = 0
_TYPES = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}


class _Entry(NamedTuple):
    """One property on its way into the answer."""

    name: str
    value: str | None
    definition: ConfigDef | None
    synonyms: list[DescribeConfigsSynonym]
    read_only: bool


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource, or say why it cannot be."""
    strange = [each for each in request.resources if each.resource_type not in _TYPES]
    if strange:
        # Kafka, too, refuses the whole request for it.
        return DescribeConfigsResponse(
            results=[_not_a_type(each, strange[0].resource_type) for each in request.resources]
        )
    return DescribeConfigsResponse(
        results=[_result(broker, request, resource) for resource in request.resources]
    )


def _not_a_type(resource: DescribeConfigsResource, strange: int) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"There is no resource type {strange}",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _result(
    broker: BrokerContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    keys = resource.configuration_keys
    try:
        entries = _entries(broker, resource, frozenset(keys) if keys else None)
        result.configs = [_described(entry, request) for entry in entries]
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message or None
    return result


def _entries(
    broker: BrokerContext, resource: DescribeConfigsResource, keys: Collection[str] | None
) -> Iterable[_Entry]:
    name = resource.resource_name
    if resource.resource_type == ConfigResourceType.TOPIC:
        validate_topic_name(name)
        if name not in broker.controller.image.topics_by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return _topic_entries(broker, name, keys)
    if resource.resource_type == ConfigResourceType.BROKER:
        return _broker_entries(broker, name, keys)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
    )


def _topic_entries(
    broker: BrokerContext, topic: str, keys: Collection[str] | None
) -> Iterable[_Entry]:
    overrides = broker.controller.image.topic_config(topic)
    config = LogConfig.from_properties(overrides, broker.topic_defaults.log_config())
    for name, definition in TOPIC_CONFIGS.items():
        if keys is not None and name not in keys:
            continue
        synonyms: list[DescribeConfigsSynonym] = []
        if name in overrides:
            synonyms.append(
                DescribeConfigsSynonym(
                    name=name, value=overrides[name], source=ConfigSource.TOPIC_CONFIG
                )
            )
        synonyms += [
            DescribeConfigsSynonym(
                name=default.name, value=default.value, source=_source(default.is_stated)
            )
            for default in broker.topic_defaults.chain(name)
        ]
        yield _Entry(name, config.value_text(name), definition, synonyms, False)


def _broker_entries(
    broker: BrokerContext, name: str, keys: Collection[str] | None
) -> Iterable[_Entry]:
    if name == "":
        # The cluster-wide defaults, none of which can be set yet.
        return
    node_id = broker.config.node_id
    if not name.removeprefix("-").isdecimal():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )
    stated = broker.config.values.stated
    for each in sorted({*TABLES.acted_on, *stated}):
        if keys is not None and each not in keys:
            continue
        definition = TABLES.find(each)
        synonyms: list[DescribeConfigsSynonym] = []
        if each in stated:
            synonyms.append(
                DescribeConfigsSynonym(
                    name=each,
                    value=_shown(definition, stated[each]),
                    source=ConfigSource.STATIC_BROKER_CONFIG,
                )
            )
        default = None if definition is None else definition.default
        if default is not None:
            synonyms.append(
                DescribeConfigsSynonym(name=each, value=default, source=ConfigSource.DEFAULT_CONFIG)
            )
        yield _Entry(each, synonyms[0].value if synonyms else None, definition, synonyms, True)


def _source(is_stated: bool) -> ConfigSource:
    return ConfigSource.STATIC_BROKER_CONFIG if is_stated else ConfigSource.DEFAULT_CONFIG


def _is_sensitive(definition: ConfigDef | None) -> bool:
    return definition is None or definition.type is ConfigType.PASSWORD


def _shown(definition: ConfigDef | None, text: str) -> str | None:
    return None if _is_sensitive(definition) else text.strip()


def _described(entry: _Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    definition = entry.definition
    strongest = entry.synonyms[0].source if entry.synonyms else ConfigSource.DEFAULT_CONFIG
    documentation = definition.documentation if definition is not None else None
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=strongest,
        is_sensitive=_is_sensitive(definition),
        synonyms=entry.synonyms if request.include_synonyms else [],
        config_type=_UNKNOWN_TYPE if definition is None else definition.type,
        documentation=documentation if request.include_documentation else None,
    )
