"""Shared by tests: a cluster image to create topics in."""

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.brokers.broker_control import BrokerRegistration, register_broker
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, Endpoint
from tierlog.tests import wire


class Ids:
    """Topic ids that tell in which order they were given out."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self) -> Uuid:
        self.last += 1
        return Uuid(self.last.to_bytes(16, "big"))


def cluster(*broker_ids: int) -> ClusterImage:
    image = ClusterImage("cluster")
    for broker_id in broker_ids or (1,):
        endpoint = Endpoint("PLAINTEXT", "localhost", 9092, 0)
        registration = BrokerRegistration(broker_id, Uuid(bytes(16)), [endpoint], [])
        image = with_records(image, *register_broker(image, registration, 0).records)
    return image


def with_records(image: ClusterImage, *records: Message) -> ClusterImage:
    delta = ClusterDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset + len(records), 1)


def topic(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    assignments: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    configs: list[tuple[str, str | None]] | None = None,
) -> wire.CreatableTopic:
    stated = assignments.items() if isinstance(assignments, dict) else assignments or ()
    return wire.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            wire.CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
            for partition, brokers in stated
        ],
        configs=[wire.CreatableTopicConfig(name=key, value=value) for key, value in configs or ()],
    )
