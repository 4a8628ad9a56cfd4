"""The quotas of clients, and how long a client above its quota is throttled (KIP-13, KIP-257).

Quotas are looked up in this order, and the first one that is set applies: (user, client id), (user,
any client id), user, (any user, client id), (any user, any client id), any user, client id, any
client id. Clients that share a quota share its meter: those of a user, of a client id, or of the
two together. For a client without a client id only the quotas of users count.

A meter sums what was used in the last eleven one-second samples; the current one is incomplete. A
client above its quota is throttled until the average is at the quota again (`Rate`,
`QuotaUtils.throttleTime`). The average is always taken over ten full samples and the elapsed part
of the current one, so that a burst after an idle period does not immediately count as an excess.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from ...replication.metadata.cluster_image import QuotaEntity

SAMPLES, SAMPLE_S = 11, 1.0
_KEPT_MAX = 10_000

T = TypeVar("T")
KeyT = TypeVar("KeyT", bound=Hashable)


class Quota(NamedTuple):
    """A limit per second, and the key of the meter that its clients share."""

    limit: float
    shared_by: tuple[str, str, str]

    @property
    def window(self) -> float:
        """The most that may be used in a whole window."""
        return self.limit * (SAMPLES - 1) * SAMPLE_S


class Meter:
    """The recent usage. Times are seconds of one monotonic clock."""

    __slots__ = ("_samples", "_total")

    def __init__(self) -> None:
        self._samples: OrderedDict[int, float] = OrderedDict()
        self._total = 0.0

    def record(self, amount: float, now: float) -> None:
        """Add usage; a negative amount subtracts it again."""
        self._expire(now)
        sample = int(now / SAMPLE_S)
        self._samples[sample] = self._samples.get(sample, 0.0) + amount
        self._total += amount

    def excess_s(self, limit: float, now: float) -> float:
        """The seconds without usage until the average is down to the limit; 0 if it already is."""
        self._expire(now)
        window = (SAMPLES - 1) * SAMPLE_S + now % SAMPLE_S
        return max(self._total / limit - window, 0.0)

    def _expire(self, now: float) -> None:
        oldest = int(now / SAMPLE_S) - SAMPLES + 1
        while self._samples and next(iter(self._samples)) < oldest:
            self._total -= self._samples.popitem(last=False)[1]
        if not self._samples:
            self._total = 0.0


class Kept(Generic[KeyT, T]):
    """One value per key, made at the first use; if full, the least recently used is dropped."""

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._kept: OrderedDict[KeyT, T] = OrderedDict()

    def __getitem__(self, key: KeyT) -> T:
        value = self._kept.get(key)
        if value is None:
            value = self._kept[key] = self._make()
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return value


class ClientQuotas:
    """The quotas of one broker, and the meters of its clients."""

    def __init__(self) -> None:
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._meters = Kept[tuple[str, str, str], Meter](Meter)

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Replace all quotas."""
        self._quotas = quotas

    @property
    def holds_clients_back(self) -> bool:
        """Whether a quota is set for any user or client id."""
        return any(entity[0][0] != "ip" for entity in self._quotas)

    def quota(self, key: str, user: str, client_id: str) -> Quota | None:
        """The quota that applies to this user's client, if any."""
        for user_name, client_name in (
            (user, client_id),
            (user, None),
            (None, client_id),
            (None, None),
        ):
            both = (("client-id", client_name), ("user", user_name))
            limit = self._quotas.get(both, {}).get(key) if client_id else None
            if limit is not None:
                return Quota(limit, (key, user, client_id))
            if client_name is None:
                limit = self._quotas.get((("user", user_name),), {}).get(key)
                if limit is not None:
                    return Quota(limit, (key, user, ""))
        for client_name in (client_id, None) if client_id else ():
            limit = self._quotas.get((("client-id", client_name),), {}).get(key)
            if limit is not None:
                return Quota(limit, (key, "", client_id))
        return None

    def address_limit(self, address: str) -> float | None:
        """The connections that this address may open per second; None for no limit."""
        for name in (address, None):
            limit = self._quotas.get((("ip", name),), {}).get("connection_creation_rate")
            if limit is not None:
                return limit
        return None

    def meter(self, quota: Quota) -> Meter:
        """The meter of the clients that share a quota."""
        return self._meters[quota.shared_by]
