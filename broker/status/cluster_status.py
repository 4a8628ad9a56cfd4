"""The cluster in a few numbers, and its brokers."""

from collections import Counter

from ... import __version__
from ...replication.metadata.cluster_image import BrokerImage
from ..config.listeners import listener_of_brokers
from .group_status import count_groups
from .partition_status import bytes_in_tier
from .sources import Json, StatusSources, Steps, page
from .tier_status import tier_health
from .topic_status import count_troubled

BROKERS_MAX = 100
_PARTITIONS_A_STEP = 32


def overview_status(sources: StatusSources) -> Steps:
    """The cluster, its size, and the health of the tier."""
    image, broker = sources.image, sources.broker
    partitions = under_replicated = offline = 0
    for topic in image.topics_by_name.values():
        troubled = count_troubled(topic.partitions.values())
        partitions += len(topic.partitions)
        under_replicated += troubled.under_replicated
        offline += troubled.offline
        yield
    local = remote = 0
    for count, partition in enumerate(list(broker.replica_manager.partitions.values()), 1):
        local += partition.log.size_in_bytes
        remote += bytes_in_tier(partition.log) if partition.is_leader else 0
        if not count % _PARTITIONS_A_STEP:
            yield
    brokers, more_brokers = page(sorted(image.brokers), 0, BROKERS_MAX)
    return {
        "version": __version__,
        "cluster_id": image.cluster_id,
        "node_id": broker.config.node_id,
        "controller": sources.controller_id,
        "brokers": [_broker(sources, image.brokers[each]) for each in brokers],
        "more_brokers": more_brokers,
        "topics": len(image.topics_by_name),
        "partitions": partitions,
        "under_replicated": under_replicated,
        "offline": offline,
        "groups": count_groups(sources),
        "bytes_local": local,
        "bytes_remote": remote,
        "bytes_in": broker.bytes_in.value,
        "bytes_out": broker.bytes_out.value,
        "tier": tier_health(sources),
    }


def _broker(sources: StatusSources, broker: BrokerImage) -> Json:
    endpoint = broker.endpoints.get(listener_of_brokers(sources.broker.config.values))
    endpoint = endpoint or next(iter(broker.endpoints.values()), None)
    stopping = "stopping" if broker.in_controlled_shutdown else "active"
    return {
        "id": broker.broker_id,
        "host": None if endpoint is None else endpoint.host,
        "port": None if endpoint is None else endpoint.port,
        "rack": broker.rack,
        "state": "fenced" if broker.fenced else stopping,
    }


def brokers_status(sources: StatusSources, begin: int) -> Steps:
    """The brokers from number `begin` on, and how many partitions each has."""
    image = sources.image
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    in_sync: Counter[int] = Counter()
    for topic in image.topics_by_name.values():
        for count, partition in enumerate(topic.partitions.values(), 1):
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
            in_sync.update(partition.isr)
            if not count % _PARTITIONS_A_STEP:
                yield
        yield
    listed, more = page(sorted(image.brokers), begin, BROKERS_MAX)
    brokers: list[Json] = [
        {
            **_broker(sources, image.brokers[each]),
            "leaders": leaders[each],
            "replicas": replicas[each],
            "in_sync": in_sync[each],
        }
        for each in listed
    ]
    return {"controller": sources.controller_id, "brokers": brokers, "more": more}
