"""Who may write to `__remote_log_metadata`: the producers of this cluster's brokers.

A producer is recognised by a client id that no client can guess. A broker that is its whole cluster
draws it. In a cluster of several processes, the leader of a metadata partition must recognise the
producers of the other brokers too: a client id there is made of the broker's incarnation id, which
the metadata log has and no broker sends its clients.
"""

from collections.abc import Callable
from typing import Protocol

from ...clients.kafka_uuid import Uuid
from ...replication.metadata.cluster_image import ClusterImage

_PREFIX = "__remote_log_metadata_client-"


def writer_name(secret: Uuid) -> str:
    """The client id of a producer of the tier's metadata."""
    return f"{_PREFIX}{secret.hex()}"


class MetadataWriters(Protocol):
    """The producers of the tier's metadata in this cluster."""

    @property
    def own_name(self) -> str:
        """The client id of this broker's producer."""
        ...

    def are_joined_by(self, client_id: str | None) -> bool:
        """Whether a client with this id is one of them."""
        ...


class OnlyWriter:
    """The producer of a single-node cluster."""

    def __init__(self, secret: Uuid) -> None:
        self.own_name = writer_name(secret)

    def are_joined_by(self, client_id: str | None) -> bool:
        return client_id == self.own_name


class BrokersThatWrite:
    """The producers of all registered brokers of a cluster of several processes."""

    def __init__(self, node_id: int, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self.own_name = writer_name(image().brokers[node_id].incarnation_id)

    def are_joined_by(self, client_id: str | None) -> bool:
        if client_id is None or not client_id.startswith(_PREFIX):
            return False
        brokers = self._image().brokers.values()
        return any(client_id == writer_name(broker.incarnation_id) for broker in brokers)
