"""The common part of AlterConfigs and IncrementalAlterConfigs (`ConfigAdminManager`).

The broker checks each resource first: for duplicate properties, missing values, unknown types, and
its own properties, which no one else can check. All resources that pass go to the controller in one
request, except logger levels, which the broker sets itself. Each resource has its own result.

In a cluster of several processes that request goes to the active controller, wherever it is. There
the properties of brokers are not checked again: they are another broker's.

Whether the client may alter a resource is decided where the change is: for logger levels by the
broker, before it looks at them; for the rest by the controller, after the broker's checks. Those of
a broker's own properties compare them with others and read key stores, so that a client that may
not alter them is refused before (Kafka checks first, and its answers show what files there are).
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from ...clients.config_def import ConfigType
from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.api import ListenerKind
from ...clients.protocol.messages.alter_configs import AlterConfigsResourceResponse
from ...replication.control.configs.alter_configs import (
    AlterationResults,
    ConfigAlteration,
    ConfigOperation,
)
from ...replication.metadata.cluster_image import ConfigResourceType
from ...security.access import ALTER_CONFIGS, CLUSTER_ACTION, access_of
from ..config.config_values import TABLES
from ..metrics import loggers
from .active_controller import is_decided_here
from .config_access import denial
from .context import BrokerContext, RequestContext

_DECIDED_BY_CONTROLLER = frozenset(
    {ConfigResourceType.TOPIC, ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP}
)


_CHECKED_AT_ONCE = 100
"""Resources checked before other requests get their turn: each takes up to half a millisecond."""


async def change_configs(
    broker: BrokerContext,
    context: RequestContext,
    alterations: Sequence[ConfigAlteration],
    validate_only: bool,
) -> list[AlterConfigsResourceResponse]:
    """Make the changes; returns the result of each, in order: both responses have this form."""
    results = await _change(broker, context, alterations, validate_only)
    return [
        AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message or None,
            resource_type=alteration.resource.type,
            resource_name=alteration.resource.name,
        )
        for alteration, error in zip(alterations, results, strict=True)
    ]


async def _change(
    broker: BrokerContext,
    context: RequestContext,
    alterations: Sequence[ConfigAlteration],
    validate_only: bool,
) -> AlterationResults:
    results: list[KafkaError | None] = []
    named = Counter(alteration.resource for alteration in alterations)
    for alteration in alterations:
        if len(results) % _CHECKED_AT_ONCE == _CHECKED_AT_ONCE - 1:
            await asyncio.sleep(0)
        if named[alteration.resource] > 1:
            message = "Each resource must appear at most once."
            results.append(KafkaError(ErrorCode.INVALID_REQUEST, message))
        else:
            results.append(_objection(broker, context, alteration))
    sound = [index for index, objection in enumerate(results) if objection is None]
    for index in sound:
        if _is_logger(alterations[index]) and not validate_only:
            loggers.change(alterations[index].changes)
    sound = [index for index in sound if not _is_logger(alterations[index])]
    if sound:
        decided = await _decide(
            broker, context, [_with_lists(alterations[index]) for index in sound], validate_only
        )
        for index, result in zip(sound, decided, strict=True):
            results[index] = result
    return results


async def _decide(
    broker: BrokerContext,
    context: RequestContext,
    alterations: Sequence[ConfigAlteration],
    validate_only: bool,
) -> AlterationResults:
    """The results of the active controller, wherever it is."""
    if is_decided_here(broker, context):
        results = await _alter_allowed(broker, context, alterations, validate_only)
        is_deposed = any(result and result.code is ErrorCode.NOT_CONTROLLER for result in results)
        if not is_deposed or is_decided_here(broker, context):
            return results
    from .forwarded_configs import forward_alterations

    return await forward_alterations(broker, context, alterations, validate_only)


async def _alter_allowed(
    broker: BrokerContext,
    context: RequestContext,
    alterations: Sequence[ConfigAlteration],
    validate_only: bool,
) -> AlterationResults:
    """Alter what the client may alter."""
    access = access_of(broker, context)
    if access is None:
        return await broker.controller.alter_configs(alterations, validate_only)
    results: list[KafkaError | None] = [
        denial(access, ALTER_CONFIGS, *alteration.resource) for alteration in alterations
    ]
    allowed = [index for index, error in enumerate(results) if error is None]
    if allowed:
        altered = [alterations[index] for index in allowed]
        decided = await broker.controller.alter_configs(altered, validate_only)
        for index, result in zip(allowed, decided, strict=True):
            results[index] = result
    return results


def _is_logger(alteration: ConfigAlteration) -> bool:
    return alteration.resource.type == ConfigResourceType.BROKER_LOGGER


def _with_lists(alteration: ConfigAlteration) -> ConfigAlteration:
    if alteration.resource.type != ConfigResourceType.BROKER:
        return alteration
    lists = {
        name: definition
        for name, definition in TABLES.acted_on.items()
        if definition.type is ConfigType.LIST
    }
    return alteration._replace(broker_lists=lists)


def _objection(
    broker: BrokerContext, context: RequestContext, alteration: ConfigAlteration
) -> KafkaError | None:
    try:
        _preprocess(broker, context, alteration)
    except KafkaError as error:
        return error
    return None


def _preprocess(
    broker: BrokerContext, context: RequestContext, alteration: ConfigAlteration
) -> None:
    changes = alteration.changes
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [
        change.name
        for change in changes
        if change.value is None and change.operation != ConfigOperation.DELETE
    ]
    if missing:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}"
        )
    kind, name = alteration.resource
    if kind == ConfigResourceType.BROKER and not _is_of_other_broker(broker, context, name):
        broker.dynamic_config.check_name(name)
        access = access_of(broker, context)
        error = None if access is None else denial(access, ALTER_CONFIGS, kind, name)
        if error is not None:
            raise error
        image = broker.controller.image
        broker.dynamic_config.check(image, name, changes, alteration.replaces)
    elif kind == ConfigResourceType.BROKER_LOGGER and not alteration.replaces:
        access = access_of(broker, context)
        if access is not None:
            is_ours = context.listener_kind is ListenerKind.BROKER
            error = denial(access, ALTER_CONFIGS if is_ours else CLUSTER_ACTION, kind, name)
            if error is not None:
                # A broker of Kafka has no message here; its controllers have one.
                raise KafkaError(error.code) if is_ours else error
        loggers.check(broker.config.node_id, name, changes)
    elif kind != ConfigResourceType.BROKER and kind not in _DECIDED_BY_CONTROLLER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _is_of_other_broker(broker: BrokerContext, context: RequestContext, name: str) -> bool:
    """Whether a controller is to alter what another broker has checked, or none is there for."""
    is_ours = broker.member is None and name in ("", str(broker.config.node_id))
    return context.listener_kind is ListenerKind.CONTROLLER and not is_ours
