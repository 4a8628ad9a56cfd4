"""The settings of the internal topic `__share_group_state` (`shareGroupStateTopicConfigs`).

Share groups are not supported, but a client's Metadata request may auto-create the topic. It has
the same settings as in Kafka, so that a later version can use it.
"""

from ...clients.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ...replication.topic_names import SHARE_GROUP_STATE_TOPIC
from ..config.config import BrokerConfig

_PREFIX = "share.coordinator.state.topic"


def share_state_topic(config: BrokerConfig) -> CreatableTopic:
    """The topic with the partition count and configs from the broker configuration."""
    integer = config.values.integer
    configs = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(integer(f"{_PREFIX}.min.isr")),
        "retention.ms": "-1",
        "segment.bytes": str(integer(f"{_PREFIX}.segment.bytes")),
    }
    return CreatableTopic(
        name=SHARE_GROUP_STATE_TOPIC,
        num_partitions=integer(f"{_PREFIX}.num.partitions"),
        replication_factor=config.internal_topic_replication_factor(
            f"{_PREFIX}.replication.factor"
        ),
        configs=[CreatableTopicConfig(name=each, value=value) for each, value in configs.items()],
    )
