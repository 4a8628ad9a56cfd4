"""ApiVersions (key 18): the APIs that a broker supports. The first request of almost every client.

Versions: 1 throttle time; 3 flexible, the client's software name (KIP-511) and the features
(KIP-584); 4 features whose lowest version is 0 (KAFKA-17011). The response header is always
version 0, because the client does not yet know which versions the broker supports.
"""

from ..schema import Message, Struct, field, int16, int32, int64


class ApiVersionsRequest(Message, key=18, versions="0-4", flexible="3+"):
    """The client's software name and version."""

    client_software_name: str = field("3+", ignorable=True)
    client_software_version: str = field("3+", ignorable=True)


class ApiVersion(Struct):
    """One API and its range of versions."""

    api_key: int16 = field("0+")
    min_version: int16 = field("0+")
    max_version: int16 = field("0+")


class SupportedFeatureKey(Struct):
    """A feature and the levels that this broker supports."""

    name: str = field("3+")
    min_version: int16 = field("3+")
    max_version: int16 = field("3+")


class FinalizedFeatureKey(Struct):
    """A feature and its finalised level in the cluster."""

    name: str = field("3+")
    max_version_level: int16 = field("3+")
    min_version_level: int16 = field("3+")


class ApiVersionsResponse(Message, key=18, versions="0-4", flexible="3+"):
    """The supported APIs. Decoded as version 0 if the error code is UNSUPPORTED_VERSION."""

    error_code: int16 = field("0+")
    api_keys: list[ApiVersion] = field("0+")
    throttle_time_ms: int32 = field("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, ignorable=True)
    finalized_features_epoch: int64 = field("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, ignorable=True)
    zk_migration_ready: bool = field("3+", tag=3, ignorable=True)
