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
from ...replication.control.feature_control import FeatureUpdate, UpgradeType
from ...replication.metadata.metadata_records import SUPPORTED_FEATURES
from ..request.context import BrokerContext, RequestContext


async def handle(
    broker: BrokerContext, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Pass the updates to the controller."""
    updates = [
        FeatureUpdate(
            each.feature,
            each.max_version_level,
            UpgradeType.SAFE_DOWNGRADE if each.allow_downgrade else each.upgrade_type,
        )
        for each in request.feature_updates
    ]
    try:
        await broker.controller.update_features(SUPPORTED_FEATURES, updates, request.validate_only)
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version < 2:
        # Like Kafka, return the error message NONE for a success.
        response.results = [
            UpdatableFeatureResult(feature=each.feature, error_message=ErrorCode.NONE.name)
            for each in updates
        ]
    return response
