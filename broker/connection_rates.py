"""How fast connections may come: all together, and from each address (KIP-402, KIP-612).

All together are held in the backlog once they come faster than `max.connection.creation.rate`.
Those of one address above its `connection_creation_rate` quota are closed, and count nothing, so
that the address is served at its rate however hard it tries (`ConnectionQuotas`).
"""

from typing import TYPE_CHECKING

from .quotas import Kept, Meter

if TYPE_CHECKING:
    from collections.abc import Callable

UNLIMITED = 2**31 - 1


class ConnectionRates:
    """The meters of one server."""

    def __init__(self) -> None:
        self.address_limit: Callable[[str], float | None] | None = None
        """The quota of an address; None where no address has one."""
        self._all = Meter()
        self._by_address = Kept[str, Meter](Meter)

    def is_too_fast(self, address: str, now: float) -> bool:
        """Count a connection of this address; whether it is one too many."""
        limit = None if self.address_limit is None else self.address_limit(address)
        if limit is None:
            return False
        meter = self._by_address[address]
        meter.record(1, now)
        if meter.excess_s(limit, now) <= 0:
            return False
        meter.record(-1, now)
        return True

    def rest_s(self, limit: int, now: float) -> float:
        """Count a connection; for how long none should be accepted now."""
        if limit >= UNLIMITED:
            return 0.0
        self._all.record(1, now)
        # A limit of 0 lets one in for each window.
        return self._all.excess_s(max(limit, 0.1), now)
