"""What a broker's record says of its addresses and features."""

from collections.abc import Iterable, Mapping

from ...metadata.cluster_image import Endpoint
from ...metadata.metadata_records import BrokerEndpoint, BrokerFeature


def broker_endpoints(endpoints: Iterable[Endpoint]) -> list[BrokerEndpoint]:
    """A broker's addresses as its record has them."""
    return [
        BrokerEndpoint(
            name=endpoint.listener,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in endpoints
    ]


def broker_features(features: Mapping[str, tuple[int, int]]) -> list[BrokerFeature]:
    """The lowest and highest levels of a broker's features as its record has them."""
    return [
        BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in features.items()
    ]
