"""DescribeConfigs (key 32), versions 1-4: the values of properties, and their sources.

Resources are topics, this broker, its loggers (KIP-412), groups and client metrics subscriptions.

For a broker, the response has the properties that tierlog acts on, and those that are set in its
file or dynamically. An unknown property may belong to a plugin and be a secret, so its value is
left out; so is a name that does not look like one, which may be a line of a private key (see
`looks_like_a_name`). Properties that cannot be altered at runtime are read-only
(`dynamic_config.py`). An empty broker name stands for all brokers: the response has only the
properties that are set for all of them.

v1: synonyms: every property that could have set the value, the effective one first (KIP-226)
v3: types and, on request, documentation (KIP-569)
v4: flexible
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import dropwhile
from typing import NamedTuple

from ...clients.config_def import ConfigDef, ConfigType
from ...clients.errors import ErrorCode, KafkaError
from ...clients.properties import looks_like_a_name
from ...clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ...replication.control.access.scram_control import SECRET_CONFIG
from ...replication.control.configs.resource_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from ...replication.control.controller_config import ConfigSource
from ...replication.metadata.cluster_image import ConfigResource, ConfigResourceType
from ...replication.topic_names import validate_topic_name
from ...security.access import DESCRIBE_CONFIGS, access_of
from ...storage.config import TOPIC_CONFIGS, LogConfig
from ..broker_ids import parse_broker_id
from ..config.config_values import TABLES
from ..config.dynamic_config import definition_of, is_dynamic
from ..config.topic_defaults import interchangeable
from ..metrics.loggers import levels
from ..request.config_access import denial
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list

_UNKNOWN_TYPE = 0
_TYPES = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}


class _Entry(NamedTuple):
    """One property of the response."""

    name: str
    value: str | None
    definition: ConfigDef | None
    synonyms: list[DescribeConfigsSynonym]
    read_only: bool


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource, or return its error."""
    strange = [resource for resource in request.resources if resource.resource_type not in _TYPES]
    if strange:
        # Like Kafka, refuse the whole request.
        return DescribeConfigsResponse(
            results=[
                _not_a_type(resource, strange[0].resource_type) for resource in request.resources
            ]
        )
    # Describe each resource once, even if it is named often: each description takes 13 KB.
    distinct = {
        (
            resource.resource_type,
            resource.resource_name,
            frozenset(resource.configuration_keys or ()),
        ): resource
        for resource in request.resources
    }
    resources = list(distinct.values())
    access = access_of(broker, context)
    denied: dict[tuple[int, str], KafkaError] = {}
    if access is not None:
        keys = {(resource.resource_type, resource.resource_name) for resource in resources}
        errors = {key: denial(access, DESCRIBE_CONFIGS, *key) for key in sorted(keys)}
        denied = {key: error for key, error in errors.items() if error is not None}
        # Like Kafka, put them last.
        resources.sort(key=lambda each: (each.resource_type, each.resource_name) in denied)
    return DescribeConfigsResponse(
        results=lazy_list(partial(_result, broker, request, denied), resources)
    )


def _not_a_type(resource: DescribeConfigsResource, strange: int) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"There is no resource type {strange}",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _result(
    broker: BrokerContext,
    request: DescribeConfigsRequest,
    denied: Mapping[tuple[int, str], KafkaError],
    resource: DescribeConfigsResource,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    keys = resource.configuration_keys
    try:
        error = denied.get((resource.resource_type, resource.resource_name))
        if error is not None:
            raise error
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            _check_node_id(resource.resource_name, broker.config.node_id, is_logger=True)
            result.configs = _loggers(frozenset(keys) if keys else None, request)
            return result
        entries = _entries(broker, resource, frozenset(keys) if keys else None)
        result.configs = [_to_result(entry, request) for entry in entries]
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
    overrides = broker.controller.image.configs.get(
        ConfigResource(resource.resource_type, name), {}
    )
    if resource.resource_type == ConfigResourceType.GROUP:
        _require_name(name, "Group name")
        return _group_entries(broker, overrides, keys)
    if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        _require_name(name, "Client metrics subscription name")
        return _client_metrics_entries(overrides, keys)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
    )


def _require_name(name: str, what: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} must not be empty")


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
            DescribeConfigsSynonym(name=default.name, value=default.value, source=default.source)
            for default in broker.topic_defaults.chain(name)
        ]
        yield _Entry(name, config.value_text(name), definition, synonyms, False)


def _broker_entries(
    broker: BrokerContext, name: str, keys: Collection[str] | None
) -> Iterable[_Entry]:
    image = broker.controller.image
    everyone = (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, image.broker_config(None))
    if name == "":
        layers = [everyone]
        names = sorted(everyone[1])
    else:
        _check_node_id(name, broker.config.node_id)
        file = broker.config.values.stated
        own = image.broker_config(broker.config.node_id)
        layers = [
            (ConfigSource.DYNAMIC_BROKER_CONFIG, own),
            everyone,
            (ConfigSource.STATIC_BROKER_CONFIG, file),
        ]
        of_file = {each for each in file if TABLES.find(each) or looks_like_a_name(each)}
        names = sorted({*TABLES.acted_on, *of_file, *own, *everyone[1]})
    for each in names:
        if each == SECRET_CONFIG or (keys is not None and each not in keys):
            continue
        definition = definition_of(each)
        synonyms = _broker_synonyms(each, layers, with_defaults=bool(name))
        value = synonyms[0].value if synonyms else None
        yield _Entry(each, value, definition, synonyms, not is_dynamic(each))


def _broker_synonyms(
    name: str, layers: Sequence[tuple[ConfigSource, Mapping[str, str]]], *, with_defaults: bool
) -> list[DescribeConfigsSynonym]:
    names = interchangeable(name)
    synonyms = [
        DescribeConfigsSynonym(
            name=each, value=_display_value(definition_of(each), layer[each]), source=source
        )
        for source, layer in layers
        for each in names
        if each in layer
    ]
    for each in names if with_defaults else ():
        definition = definition_of(each)
        if definition is not None and definition.default is not None:
            default, source = definition.default, ConfigSource.DEFAULT_CONFIG
            synonyms.append(DescribeConfigsSynonym(name=each, value=default, source=source))
    # Like Kafka, leave out the synonyms before the property's own name.
    return list(dropwhile(lambda synonym: synonym.name != name, synonyms))


def _check_node_id(name: str, node_id: int, *, is_logger: bool = False) -> None:
    if is_logger and not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    broker_id = parse_broker_id(name)
    if broker_id is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if broker_id != node_id:
        or_none = "" if is_logger else " or empty string,"
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id}{or_none} but received {name}",
        )


def _loggers(
    keys: Collection[str] | None, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            config_type=_UNKNOWN_TYPE,
            documentation="" if request.include_documentation else None,
        )
        for name, level in levels().items()
        if keys is None or name in keys
    ]


def _group_entries(
    broker: BrokerContext, overrides: Mapping[str, str], keys: Collection[str] | None
) -> Iterable[_Entry]:
    file = broker.config.values.stated
    for name, definition in GROUP_CONFIGS.items():
        if keys is not None and name not in keys:
            continue
        given_by = definition.server_synonym or name
        links = [
            (name, overrides.get(name), ConfigSource.GROUP_CONFIG),
            (given_by, file.get(given_by), ConfigSource.STATIC_BROKER_CONFIG),
            (given_by, definition.default, ConfigSource.DEFAULT_CONFIG),
        ]
        synonyms = [
            DescribeConfigsSynonym(name=link, value=value, source=source)
            for link, value, source in links
            if value is not None
        ]
        yield _Entry(name, synonyms[0].value, definition, synonyms, False)


def _client_metrics_entries(
    overrides: Mapping[str, str], keys: Collection[str] | None
) -> Iterable[_Entry]:
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        if keys is not None and name not in keys:
            continue
        source = ConfigSource.CLIENT_METRICS_CONFIG
        synonyms = [
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for value in (overrides.get(name),)
            if value is not None
        ]
        yield _Entry(name, overrides.get(name, definition.default), definition, synonyms, False)


def _is_sensitive(definition: ConfigDef | None) -> bool:
    return definition is None or definition.type is ConfigType.PASSWORD


def _display_value(definition: ConfigDef | None, text: str) -> str | None:
    return None if _is_sensitive(definition) else text.strip()


def _to_result(entry: _Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
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
