"""What transactions need of the other brokers: markers to send, and coordinators to ask."""

from typing import NamedTuple

from ...clients.network.security import ConnectionSecurity
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...replication.control.controller import Controller
from .broker_peers import BrokerPeers
from .marker_channel import MarkerChannel
from .transaction_markers import TransactionMarkers
from .verification_channel import VerificationChannel


class LinkConfig(NamedTuple):
    """How this broker reaches the others: by which of their listeners, as whom, how patiently."""

    node_id: int
    listener: str
    security: ConnectionSecurity
    request_timeout_ms: int


class TransactionLinks:
    """The connections of one broker, made when its first transaction needs them."""

    def __init__(
        self,
        config: LinkConfig,
        environment: Environment,
        controller: Controller,
        local: TransactionMarkers,
        supervisor: Supervisor,
    ) -> None:
        """`local` writes markers to the partitions that this broker leads."""
        self._peers = [
            BrokerPeers(
                lambda: controller.image,
                environment,
                client_id=f"{purpose}-{config.node_id}",
                listener=config.listener,
                request_timeout_ms=config.request_timeout_ms,
                security=config.security,
            )
            for purpose in ("transaction-markers", "transaction-verification")
        ]
        marker_peers, verification_peers = self._peers
        self.markers = MarkerChannel(
            config.node_id, local, marker_peers, controller.image, environment, supervisor
        )
        self.verification = VerificationChannel(verification_peers, supervisor)
        for peers in self._peers:
            controller.subscribe(peers.publish)
        # Subscribed last: it sends to the addresses of the new image.
        controller.subscribe(self.markers.publish)

    async def stop(self) -> None:
        """End the tasks, and close the connections."""
        await self.markers.stop()
        await self.verification.stop()
        for peers in self._peers:
            await peers.close()
