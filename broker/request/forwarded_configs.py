"""Sends changes of configurations to the active controller in another process."""

from collections.abc import Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.network.refusal import refusal
from ...clients.protocol.messages.alter_configs import (
    AlterableConfig as ReplacingConfig,
    AlterConfigsRequest,
    AlterConfigsResource as ReplacedResource,
    AlterConfigsResponse,
)
from ...clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ...replication.control.configs.alter_configs import AlterationResults, ConfigAlteration
from ...replication.metadata.cluster_image import ConfigResource
from ..cluster.forwarder import forward
from .active_controller import client_of, member_of
from .context import NodeContext, RequestContext

_INCREMENTAL_VERSION = 1
_REPLACING_VERSION = 2


async def forward_alterations(
    node: NodeContext,
    context: RequestContext,
    alterations: Sequence[ConfigAlteration],
    validate_only: bool,
) -> AlterationResults:
    """The active controller's results, in order. All alterations are of one kind."""
    replaces = alterations[0].replaces
    request = (_replacing if replaces else _incremental)(alterations, validate_only)
    version = _REPLACING_VERSION if replaces else _INCREMENTAL_VERSION
    try:
        answer = await forward(member_of(node).channel, request, version, client_of(context))
    except KafkaError as error:
        return [error for _ in alterations]
    assert isinstance(answer, AlterConfigsResponse | IncrementalAlterConfigsResponse)
    # Kafka's controllers answer in any order.
    errors = {
        ConfigResource(response.resource_type, response.resource_name): (
            refusal(response.error_code, response.error_message or "")
            if response.error_code
            else None
        )
        for response in answer.responses
    }
    return [
        errors.get(alteration.resource, _no_answer(alteration.resource))
        for alteration in alterations
    ]


def _no_answer(resource: ConfigResource) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"The active controller did not answer for resource {resource.name}.",
    )


def _incremental(
    alterations: Sequence[ConfigAlteration], validate_only: bool
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=alteration.resource.type,
                resource_name=alteration.resource.name,
                configs=[
                    AlterableConfig(
                        name=change.name, config_operation=change.operation, value=change.value
                    )
                    for change in alteration.changes
                ],
            )
            for alteration in alterations
        ],
        validate_only=validate_only,
    )


def _replacing(alterations: Sequence[ConfigAlteration], validate_only: bool) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            ReplacedResource(
                resource_type=alteration.resource.type,
                resource_name=alteration.resource.name,
                configs=[
                    ReplacingConfig(name=change.name, value=change.value)
                    for change in alteration.changes
                ],
            )
            for alteration in alterations
        ],
        validate_only=validate_only,
    )
