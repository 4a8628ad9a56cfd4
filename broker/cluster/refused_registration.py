"""Why a controller does not register a broker, in words that say what to do.

A response to a registration has an error code and nothing else. If the cluster has finalised a
feature that this broker does not support, the controller's ApiVersions says which: Apache Kafka
finalises some in a new cluster that tierlog does not serve.
"""

from collections.abc import Mapping, Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from .controller_channel import ControllerChannel

FATAL = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    }
)
"""Refusals of a registration that no later try can change."""

_REASONS = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controllers belong to another cluster: correct"
    " controller.quorum.voters or controller.quorum.bootstrap.servers, or format this broker's"
    " directories with the id of that cluster",
    ErrorCode.INVALID_REGISTRATION: "the controller does not accept its log directories or"
    " features: does another broker of the cluster have a copy of these directories?",
    ErrorCode.UNSUPPORTED_VERSION: "it does not support the cluster's finalized features or the"
    " controller's version of BrokerRegistration",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this broker's principal may not act for the cluster:"
    " name it in super.users of the controllers; it is tried again",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another process with this node.id is registered, or"
    " the session of this broker's previous process has not expired yet; it is tried again",
}


async def reason_of(
    code: ErrorCode,
    channel: ControllerChannel,
    supported: Mapping[str, tuple[int, int]],
    timeout_ms: int,
) -> str:
    """Why a registration was refused; asks the active controller for its features if need be.

    `supported` are the levels that this broker has announced.
    """
    reason = _REASONS.get(code, "it is tried again after each heartbeat interval")
    if code is not ErrorCode.UNSUPPORTED_VERSION:
        return reason
    request = ApiVersionsRequest(client_software_name="tierlog", client_software_version="0")
    try:
        answer = await channel.request(request, ApiVersionsResponse, timeout_ms)
    except KafkaError:
        return reason
    return features_reason(answer.finalized_features, supported) or reason


def features_reason(
    finalized: Sequence[FinalizedFeatureKey], supported: Mapping[str, tuple[int, int]]
) -> str:
    """Which finalised levels are beyond what is supported, and what to do; empty if none is."""
    beyond: dict[str, tuple[int, int]] = {}
    for feature in finalized:
        lowest, highest = supported.get(feature.name, (0, 0))
        if not lowest <= feature.max_version_level <= highest:
            beyond[feature.name] = (feature.max_version_level, highest)
    if not beyond:
        return ""
    levels = ", ".join(f"{name}={level}" for name, (level, _) in sorted(beyond.items()))
    lower = " ".join(f"--feature {name}={best}" for name, (_, best) in sorted(beyond.items()))
    return (
        f"the cluster has finalized {levels}, which this version of tierlog does not support: lower"
        f" them with `kafka-features.sh downgrade {lower}`, or format the cluster's controllers"
        f" with {lower}"
    )
