"""Whether groups of the consumer protocol are served (KIP-848).

The cluster decides by its feature `group.version`, each broker's file may decline. The requests
are announced either way, as by Kafka, and answered with UNSUPPORTED_VERSION.
"""

from ...replication.metadata.metadata_records import GROUP_VERSION_FEATURE
from .context import BrokerContext

_PROTOCOLS = "group.coordinator.rebalance.protocols"
_FIRST_GROUP_VERSION = 1


def serves_consumer_groups(broker: BrokerContext) -> bool:
    """Whether such a group may be made and asked for, now."""
    level = broker.controller.image.features.get(GROUP_VERSION_FEATURE, 0)
    return level >= _FIRST_GROUP_VERSION and "consumer" in broker.config.values.texts(_PROTOCOLS)
