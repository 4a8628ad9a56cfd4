"""How fast connections may come: all together, and from each address (KIP-402, KIP-612).

All together are held in the backlog once they come faster than `max.connection.creation.rate`.
Those of one address above its `connection_creation_rate` quota are neither read nor answered, and
closed when the rate is down again or a second has passed: a client that tries again at once is
slowed down by it. They count nothing, so that the address is served at its rate however hard it
tries (`ConnectionQuotas`).
"""

from typing import TYPE_CHECKING

from ..quota.quotas import Kept, Meter

if TYPE_CHECKING:
    from collections.abc import Callable

UNLIMITED = 2**31 - 1
_DELAY_MAX_S = 1.0


class ConnectionRates:
    """The meters of one server."""

    def __init__(self) -> None:
        self.address_limit: Callable[[str], float | None] | None = None
        """The quota of an address; None where no address has one."""
        self._all = Meter()
        self._by_address = Kept[str, Meter](Meter)

    def delay_s(self, address: str, now: float) -> float:
        """Count a connection of this address.

        0 if it is to be served; else it is one too many, and to be closed in so many seconds.
        """
        limit = None if self.address_limit is None else self.address_limit(address)
        if limit is None:
            return 0.0
        meter = self._by_address[address]
        meter.record(1, now)
        excess_s = meter.excess_s(limit, now)
        if excess_s > 0:
            meter.record(-1, now)
        return min(excess_s, _DELAY_MAX_S)

    def rest_s(self, limit: int, now: float) -> float:
        """Count a connection; for how long none should be accepted now."""
        if limit >= UNLIMITED:
            return 0.0
        self._all.record(1, now)
        # A limit of 0 lets one in for each window.
        return self._all.excess_s(max(limit, 0.1), now)
