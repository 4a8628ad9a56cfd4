"""Which way requests go: past the meters of `throttling.py` only while there are quotas to obey."""

from typing import TYPE_CHECKING

from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
from ..network.socket_server import SocketServer
from ..request.context import BrokerContext

if TYPE_CHECKING:
    from .throttling import ThrottlingApis


def obey_quotas(server: SocketServer, context: BrokerContext) -> None:
    """Serve through what measures as long as there are quotas, and only then."""
    unlimited = server.answer
    held_back: ThrottlingApis | None = None

    def publish(image: ClusterImage, delta: ClusterDelta) -> None:
        nonlocal held_back
        if not delta.changed_quotas:
            return
        from ..quota.quotas import ClientQuotas
        from .throttling import ThrottlingApis

        held_back = held_back or ThrottlingApis(context, ClientQuotas())
        held_back.quotas.update(image.client_quotas)
        has_addresses = any(entity[0][0] == "ip" for entity in image.client_quotas)
        server.rates.address_limit = held_back.quotas.address_limit if has_addresses else None
        is_held_back = held_back.quotas.holds_clients_back
        server.answer = held_back.answer if is_held_back else unlimited

    context.controller.subscribe(publish)
