"""The parts that the registrations of brokers and of controllers share on the wire."""

from collections.abc import Iterable, Mapping

from ...clients.protocol.messages.broker_registration import Feature, Listener
from ...replication.metadata.cluster_image import Endpoint


def sent_listeners(endpoints: Iterable[Endpoint]) -> list[Listener]:
    """A node's addresses."""
    return [
        Listener(
            name=endpoint.listener,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in endpoints
    ]


def sent_features(features: Mapping[str, tuple[int, int]]) -> list[Feature]:
    """The lowest and the highest level of each feature that a node supports."""
    return [
        Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in features.items()
    ]
