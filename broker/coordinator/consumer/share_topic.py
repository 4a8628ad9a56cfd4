"""How `__share_group_state` is to be created (`shareGroupStateTopicConfigs`).

Share groups are not served. A client that asks for the topic makes it all the same, and a later
version finds it as Kafka would have made it.
"""

from ....clients.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ....replication.topic_names import SHARE_GROUP_STATE_TOPIC
from ...config.config import BrokerConfig

_PREFIX = "share.coordinator.state.topic"


def share_state_topic(config: BrokerConfig) -> CreatableTopic:
    """The topic with the partitions and properties that the broker's file gives it."""
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
