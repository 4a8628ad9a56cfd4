"""How much each client may ask of the broker, and for how long it is held back (KIP-13, KIP-257).

The quota of a request is the first that is set of: (user, client id), (user, any client id), user,
(any user, client id), (any user, any client id), any user, client id, any client id. What shares a
quota shares its meter: the user alone, the client id alone, or the two together.

A meter adds up what was used in the last eleven samples of a second, the current one not yet full.
A client above the quota is held back until the average is at the quota again (`Rate`,
`QuotaUtils.throttleTime`), counted over the window as if all its samples but the current one were
full, so that a start from idle is no excess.
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
    """A limit a second, and who shares it."""

    limit: float
    shared_by: tuple[str, str, str]

    @property
    def window(self) -> float:
        """What may be used in a whole window."""
        return self.limit * (SAMPLES - 1) * SAMPLE_S


class Meter:
    """What was used lately. Times are seconds of one clock that never goes back."""

    __slots__ = ("_samples", "_total")

    def __init__(self) -> None:
        self._samples: OrderedDict[int, float] = OrderedDict()
        self._total = 0.0

    def record(self, amount: float, now: float) -> None:
        """Count what is used; a negative amount takes it back."""
        self._expire(now)
        sample = int(now / SAMPLE_S)
        self._samples[sample] = self._samples.get(sample, 0.0) + amount
        self._total += amount

    def excess_s(self, limit: float, now: float) -> float:
        """How long to use nothing so that the average is at the limit again; 0 if it is."""
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
    """One thing for each key, made when first asked for; of too many, the longest unused goes."""

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
    """The quotas of one broker, and the meters of those that are subject to one."""

    def __init__(self) -> None:
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._meters = Kept[tuple[str, str, str], Meter](Meter)

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Let these hold from now on."""
        self._quotas = quotas

    @property
    def holds_clients_back(self) -> bool:
        """Whether anything is set for users or client ids."""
        return any(entity[0][0] != "ip" for entity in self._quotas)

    def quota(self, key: str, user: str, client_id: str) -> Quota | None:
        """The quota that counts for this user's client, if there is one."""
        for user_name, client_name in (
            (user, client_id),
            (user, None),
            (None, client_id),
            (None, None),
        ):
            both = (("client-id", client_name), ("user", user_name))
            limit = self._quotas.get(both, {}).get(key)
            if limit is not None:
                return Quota(limit, (key, user, client_id))
            if client_name is None:
                limit = self._quotas.get((("user", user_name),), {}).get(key)
                if limit is not None:
                    return Quota(limit, (key, user, ""))
        for client_name in (client_id, None):
            limit = self._quotas.get((("client-id", client_name),), {}).get(key)
            if limit is not None:
                return Quota(limit, (key, "", client_id))
        return None

    def address_limit(self, address: str) -> float | None:
        """Connections that this address may open in a second."""
        for name in (address, None):
            limit = self._quotas.get((("ip", name),), {}).get("connection_creation_rate")
            if limit is not None:
                return limit
        return None

    def meter(self, quota: Quota) -> Meter:
        """The meter of those who share a quota."""
        return self._meters[quota.shared_by]
