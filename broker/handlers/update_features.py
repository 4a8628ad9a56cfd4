"""UpdateFeatures (key 57), versions 0-2: changes finalised features, all or none (KIP-584).

v1: names the kind of change, an upgrade or a downgrade; may only validate (KIP-778)
v2: one result for all features (KIP-1022)
"""

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ...replication.control.feature_control import FeatureUpdate
from ...replication.metadata.metadata_records import SUPPORTED_FEATURES
from ..request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Pass the updates to the controller."""
    # Like Kafka's KRaft controllers, ignore `allow_downgrade` of version 0, and take the last level
    # of a feature that is named twice.
    updates = {
        update.feature: FeatureUpdate(update.feature, update.max_version_level, update.upgrade_type)
        for update in request.feature_updates
    }
    try:
        await node.controller.update_features(
            SUPPORTED_FEATURES,
            list(updates.values()),
            request.validate_only,
            node.kraft_version,
        )
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version < 2:
        # Like Kafka, return the error message NONE for a success.
        response.results = [
            UpdatableFeatureResult(feature=update.feature, error_message=ErrorCode.NONE.name)
            for update in request.feature_updates
        ]
    return response
