"""Requests from this broker to other brokers, at the addresses in the cluster image.

One connection to each broker, on the listener between brokers. A broker that is fenced, or gone, or
whose address has changed, loses its connection with the next image, so that a request to it fails
at once instead of after its timeout.
"""

from collections.abc import Callable
from typing import TypeVar

from ...clients.network.network import Address, NetworkClient, NetworkConfig
from ...clients.network.security import UNSECURED, ConnectionSecurity
from ...clients.protocol.schema import Message
from ...clients.runtime.environment import Environment
from ...replication.metadata.cluster_image import BrokerImage, ClusterDelta, ClusterImage

R = TypeVar("R", bound=Message)

_RECONNECT_BACKOFF_MAX_MS = 1_000
_RESPONSE_BYTES_MAX = 100 << 20


class BrokerPeers:
    """See the top of this file. Each purpose has peers, and so connections, of its own."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        environment: Environment,
        *,
        client_id: str,
        listener: str,
        request_timeout_ms: int,
        security: ConnectionSecurity = UNSECURED,
    ) -> None:
        """`listener` is the name of the listener between brokers (`listener_of_brokers`); without
        `security`, connections are in plain text and without a login.
        """
        self._image = image
        self._listener = listener
        self._network = NetworkClient(
            (),
            environment,
            NetworkConfig(
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                socket_connection_setup_timeout_ms=min(request_timeout_ms, 10_000),
                reconnect_backoff_max_ms=_RECONNECT_BACKOFF_MAX_MS,
                response_bytes_max=_RESPONSE_BYTES_MAX,
                security=security,
            ),
        )
        self.publish(image())

    def publish(self, image: ClusterImage, _: ClusterDelta | None = None) -> None:
        """Use the addresses of a new image."""
        addresses = {
            broker.broker_id: address
            for broker in image.brokers.values()
            if not broker.fenced and (address := self._address(broker)) is not None
        }
        self._network.update_nodes(addresses)

    def is_reachable(self, broker_id: int) -> bool:
        """Whether the image has an address of this broker, and it is not fenced."""
        broker = self._image().brokers.get(broker_id)
        return broker is not None and not broker.fenced and self._address(broker) is not None

    async def request(self, broker_id: int, message: Message, response: type[R]) -> R:
        """Send a request to a broker. Raises KafkaError as `NetworkClient.request` does."""
        return await self._network.request(broker_id, message, response)

    async def close(self) -> None:
        """Close the connections; requests in flight fail, later ones are refused."""
        await self._network.close()

    def _address(self, broker: BrokerImage) -> Address | None:
        endpoint = broker.endpoints.get(self._listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)
