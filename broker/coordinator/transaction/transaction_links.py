"""What transactions need of the other brokers: markers to send, and coordinators to ask."""

from ....clients.environment import Environment
from ....clients.supervisor import Supervisor
from ....replication.controller.controller import Controller
from ...config.config import BrokerConfig
from ...config.listeners import listener_of_brokers
from ...config.tls_listeners import node_security
from .broker_peers import BrokerPeers
from .marker_channel import MarkerChannel
from .transaction_markers import TransactionMarkers
from .verification_channel import VerificationChannel


class TransactionLinks:
    """The connections of one broker, made when its first transaction needs them."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment,
        controller: Controller,
        local: TransactionMarkers,
        supervisor: Supervisor,
    ) -> None:
        """`local` writes markers to the partitions that this broker leads."""
        listener = listener_of_brokers(config.values)
        security = node_security(config, listener)
        self._peers = [
            BrokerPeers(
                lambda: controller.image,
                environment,
                client_id=f"{purpose}-{config.node_id}",
                listener=listener,
                request_timeout_ms=config.values.integer("request.timeout.ms"),
                security=security,
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
