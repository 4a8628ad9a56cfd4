"""Serves requests through `throttling.py` while there are quotas."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
from ..network.connection import ConnectedClient, Response
from ..network.socket_server import SocketServer
from ..request.context import NodeContext

if TYPE_CHECKING:
    from .throttling import ThrottlingApis


Answer = Callable[[ConnectedClient, memoryview], Response]
"""Answers one request (`Apis.answer`)."""


def _as_it_is(answer: Answer) -> Answer:
    return answer


def serve_within_quotas(
    server: SocketServer, context: NodeContext, around: Callable[[Answer], Answer] = _as_it_is
) -> None:
    """Serve with `ThrottlingApis` while any user or client id has a quota, otherwise with `Apis`.

    What `around` makes of `ThrottlingApis.answer` answers the requests then.

    The quotas of addresses go to the server's `ConnectionRates`.
    """
    unlimited = server.answer
    throttling: ThrottlingApis | None = None

    def publish(image: ClusterImage, delta: ClusterDelta) -> None:
        nonlocal throttling
        if not delta.changed_quotas:
            return
        from ..quota.quotas import ClientQuotas
        from .throttling import ThrottlingApis

        throttling = throttling or ThrottlingApis(context, ClientQuotas())
        throttling.quotas.update(image.client_quotas)
        has_addresses = any(entity[0][0] == "ip" for entity in image.client_quotas)
        server.rates.address_limit = throttling.quotas.address_limit if has_addresses else None
        is_limited = throttling.quotas.holds_clients_back
        server.answer = around(throttling.answer) if is_limited else unlimited

    context.controller.subscribe(publish)
