"""ApiVersions (key 18), versions 0-4: the APIs of the listener, and the finalised features.

The finalised features come from the metadata log, the supported ones from `SUPPORTED_FEATURES`.

v1: throttle time
v3: flexible; checks the client's software name and version (KIP-511); returns features
v4: also features whose lowest version is 0, which older clients cannot read (KAFKA-17011)
"""

from functools import cache

from ...clients.errors import ErrorCode
from ...clients.protocol.api import SERVED_ON, ApiKey, ListenerKind, served_by_member
from ...clients.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ...clients.protocol.software_name import is_software_name_valid
from ...replication.metadata.cluster_image import ConfigResourceType
from ...replication.metadata.metadata_records import SUPPORTED_FEATURES
from ...replication.raft.raft_options import KRAFT_VERSION_FEATURE, SUPPORTED_KRAFT_VERSIONS
from ..request.context import NodeContext, RequestContext

_TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)


@cache
def _api_keys(kind: ListenerKind, is_member: bool, has_telemetry: bool) -> list[ApiVersion]:
    """The APIs to announce; those of telemetry only if there is a client metrics subscription
    (KIP-714)."""
    served = served_by_member(kind) if is_member else SERVED_ON[kind]
    return [
        ApiVersion(api_key=api.key, min_version=api.lowest_version, max_version=api.highest_version)
        for _, api in sorted(served.items())
        if has_telemetry or api.key not in _TELEMETRY
    ]


def handle(
    node: NodeContext, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    """Announce the APIs and features."""
    if not is_software_name_valid(request, context.api_version):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = node.controller.image
    supported, finalized = dict(SUPPORTED_FEATURES), dict(image.features)
    kraft_level = node.kraft_version
    if kraft_level is not None:
        supported[KRAFT_VERSION_FEATURE] = SUPPORTED_KRAFT_VERSIONS
        if kraft_level > 0:
            finalized[KRAFT_VERSION_FEATURE] = kraft_level
    has_telemetry = any(kind == ConfigResourceType.CLIENT_METRICS for kind, _ in image.configs)
    return ApiVersionsResponse(
        api_keys=_api_keys(context.listener_kind, node.member is not None, has_telemetry),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in supported.items()
            if lowest > 0 or context.api_version >= 4
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()
        ],
    )
