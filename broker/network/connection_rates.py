"""The limits on connection creation rates, in total and per address (KIP-402, KIP-612).

Connections stay in the backlog while their total rate is above `max.connection.creation.rate`.
Connections of an address above its `connection_creation_rate` quota are not read, and are closed
when the rate is down again or a second has passed, which slows down a client that retries at once.
Such connections do not count towards the rate, so that the address still gets its quota however
often it tries (`ConnectionQuotas`).
"""

from typing import TYPE_CHECKING

from ..quota.quotas import Kept, Meter

if TYPE_CHECKING:
    from collections.abc import Callable

UNLIMITED = 2**31 - 1
_DELAY_MAX_S = 1.0


class ConnectionRates:
    """The connection rate meters of one server."""

    def __init__(self) -> None:
        self.address_limit: Callable[[str], float | None] | None = None
        """Returns the quota of an address, if any; None if no address has one."""
        self._all = Meter()
        self._by_address = Kept[str, Meter](Meter)

    def delay_s(self, address: str, now: float) -> float:
        """Count a connection from this address.

        Returns 0 if it may be served, otherwise the seconds after which it must be closed.
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
        """Count a connection; returns the seconds for which no more may be accepted."""
        if limit >= UNLIMITED:
            return 0.0
        self._all.record(1, now)
        # A limit of 0 still admits one connection per window.
        return self._all.excess_s(max(limit, 0.1), now)
