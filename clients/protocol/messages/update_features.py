"""UpdateFeatures (key 57): raises, lowers or drops finalised features (KIP-584, KIP-778).

Version 1 adds the upgrade type and `validate_only`; version 2 drops the results per feature.
"""

from ..schema import Message, Struct, field, int8, int16, int32


class FeatureUpdateKey(Struct):
    """A feature and its new level.

    `upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.
    """

    feature: str = field("0+")
    max_version_level: int16 = field("0+")
    allow_downgrade: bool = field("0")
    upgrade_type: int8 = field("1+", default=1)


class UpdateFeaturesRequest(Message, key=57, versions="0-2", flexible="0+"):
    """The features to change."""

    timeout_ms: int32 = field("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field("0+")
    validate_only: bool = field("1+")


class UpdatableFeatureResult(Struct):
    """The result for one feature."""

    feature: str = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class UpdateFeaturesResponse(Message, key=57, versions="0-2", flexible="0+"):
    """The result of the update."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = field("0-1", ignorable=True)
