"""Decides whether groups of the consumer protocol are supported (KIP-848).

The cluster enables them with its feature `group.version`; each broker's configuration may disable
them. The APIs are announced either way, as in Kafka; if disabled, they return UNSUPPORTED_VERSION.
"""

from ...replication.metadata.metadata_records import GROUP_VERSION_FEATURE
from .context import BrokerContext

_PROTOCOLS = "group.coordinator.rebalance.protocols"
_FIRST_GROUP_VERSION = 1


def serves_consumer_groups(broker: BrokerContext) -> bool:
    """Whether groups of the consumer protocol are enabled now."""
    level = broker.controller.image.features.get(GROUP_VERSION_FEATURE, 0)
    return level >= _FIRST_GROUP_VERSION and "consumer" in broker.config.values.texts(_PROTOCOLS)
