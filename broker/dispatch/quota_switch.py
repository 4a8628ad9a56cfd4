"""Gives the dispatch a throttle while there are quotas (`throttling.py`)."""

from typing import TYPE_CHECKING

from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
from ..network.connection_rates import ConnectionRates
from ..request.context import NodeContext
from .apis import Apis

if TYPE_CHECKING:
    from .throttling import Throttle


def follow_quotas(context: NodeContext, apis: Apis, rates: ConnectionRates) -> None:
    """Throttle while any user or client id has a quota; those of addresses go to `rates`."""
    throttle: Throttle | None = None

    def publish(image: ClusterImage, delta: ClusterDelta) -> None:
        nonlocal throttle
        if not delta.changed_quotas:
            return
        from ..quota.quotas import ClientQuotas
        from .throttling import Throttle

        throttle = throttle or Throttle(context, ClientQuotas())
        quotas = throttle.quotas
        quotas.update(image.client_quotas)
        has_addresses = any(entity[0][0] == "ip" for entity in image.client_quotas)
        rates.address_limit = quotas.address_limit if has_addresses else None
        apis.limit(throttle if quotas.holds_clients_back else None)

    context.controller.subscribe(publish)
