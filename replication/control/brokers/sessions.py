"""The sessions of brokers: who has sent a heartbeat recently, and whom to fence (KIP-631).

A session is soft state of the active controller: nothing of it is in the log. A new active
controller gives each unfenced broker a fresh full session, so nobody is fenced for heartbeats that
went to its predecessor (KAFKA-19130).

The controller looks for expired sessions every eighth of the session timeout and takes at most one
a look: with two, the records of the second would be decided on an image without those of the first,
and could elect it (KAFKA-13173). The broker that has been silent longest goes first.

Time in which the controller itself did not run does not count: the heartbeats of that time are
still in its sockets. A look that comes later than one interval after it was due extends all
sessions by the delay, and is held at once: time between pauses counts, however short. Apache Kafka
fences a broker in this case.

Correctness does not depend on sessions, since fencing works by records and epochs. Two switches
that Kafka doesn't have trade false positives for a faster reaction; both are off by default. Where
sessions are shortened, the controller also looks when the first one expires, and not up to an
eighth of the timeout later.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ...metadata.cluster_image import BrokerImage, ClusterImage

LOOKS_A_SESSION = 8


class BrokerIdAndEpoch(NamedTuple):
    """One registration of a broker (`BrokerIdAndEpoch`)."""

    broker_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """The timing of sessions; the last two fields are off by default, as in Kafka."""

    session_timeout_ms: int = 9000
    # How long a session lasts at most after its process has probably ended.
    session_after_reset_ms: int | None = None
    # Whether a broker that may shut down has no session any longer, so that its next
    # incarnation can register at once.
    ends_with_shutdown: bool = False

    @property
    def look_interval_ms(self) -> int:
        """The time between two looks for expired sessions."""
        return max(1, self.session_timeout_ms // LOOKS_A_SESSION)


class BrokerSessions:
    """The last contact with each registration (`BrokerHeartbeatTracker`)."""

    def __init__(self, config: SessionConfig, now_ms: int) -> None:
        """Begin without sessions, as a controller that has just become active."""
        self._config = config
        self._contacts: dict[BrokerIdAndEpoch, int] = {}
        self._next_look_ms = now_ms + config.look_interval_ms

    @property
    def next_look_ms(self) -> int:
        """When to look for an expired session again."""
        return self._next_look_ms

    def take_over(self, brokers: Iterable[BrokerImage], now_ms: int) -> None:
        """Give each unfenced broker a fresh full session; forget all others."""
        self._next_look_ms = now_ms + self._config.look_interval_ms
        self._contacts = {
            BrokerIdAndEpoch(broker.broker_id, broker.epoch): now_ms
            for broker in brokers
            if not broker.fenced
        }

    def adopt(self, brokers: Iterable[BrokerImage], now_ms: int) -> None:
        """Give a full session to each unfenced broker without one: no broker is forgotten.

        A decision to fence a broker can fail after its session has ended.
        """
        for broker in brokers:
            if not broker.fenced:
                self._contacts.setdefault(BrokerIdAndEpoch(broker.broker_id, broker.epoch), now_ms)

    def touch(self, broker: BrokerIdAndEpoch, now_ms: int) -> None:
        """Note a heartbeat, also one that comes too late to change a state (KAFKA-15019)."""
        self._forgive_pause(now_ms)
        self._contacts[broker] = max(now_ms, self._contacts.get(broker, now_ms))

    def has_valid_session(self, broker: BrokerIdAndEpoch, now_ms: int) -> bool:
        """Whether this registration had contact within the session timeout."""
        self._forgive_pause(now_ms)
        contact_ms = self._contacts.get(broker)
        return contact_ms is not None and not self._is_expired(contact_ms, now_ms)

    def remove(self, broker_id: int) -> None:
        """End all sessions of a broker, since it is unregistered or registers again."""
        for broker in [contact for contact in self._contacts if contact.broker_id == broker_id]:
            del self._contacts[broker]

    def on_process_ended(self, broker: BrokerIdAndEpoch, since_ms: int, now_ms: int) -> None:
        """Shorten a session whose process has probably ended at `since_ms`, perhaps before the
        session began. A heartbeat renews it.
        """
        self._forgive_pause(now_ms)
        rest_ms = self._config.session_after_reset_ms
        contact_ms = self._contacts.get(broker)
        if rest_ms is not None and contact_ms is not None:
            shortened_ms = since_ms + rest_ms - self._config.session_timeout_ms
            self._contacts[broker] = min(contact_ms, shortened_ms)
            self._plan_look(self._next_look_ms)

    def on_shutdown_answered(self, broker: BrokerIdAndEpoch) -> None:
        """The broker may shut down; a record has fenced it."""
        if self._config.ends_with_shutdown:
            self._contacts.pop(broker, None)

    def look(self, now_ms: int) -> BrokerIdAndEpoch | None:
        """Remove the session that expired first and return its broker, if one has expired."""
        self._forgive_pause(now_ms)
        if now_ms < self._next_look_ms:
            return None
        broker = self._first_expired(now_ms)
        if broker is not None:
            del self._contacts[broker]
        self._plan_look(now_ms + self._config.look_interval_ms)
        return broker

    def _first_expired(self, now_ms: int) -> BrokerIdAndEpoch | None:
        if not self._contacts:
            return None
        broker, contact_ms = min(self._contacts.items(), key=lambda item: (item[1], item[0]))
        return broker if self._is_expired(contact_ms, now_ms) else None

    def _plan_look(self, latest_ms: int) -> None:
        """Look at this time, or when the first session expires where sessions are shortened."""
        self._next_look_ms = latest_ms
        if self._config.session_after_reset_ms is not None and self._contacts:
            expired_ms = min(self._contacts.values()) + self._config.session_timeout_ms + 1
            self._next_look_ms = min(latest_ms, expired_ms)

    def _is_expired(self, contact_ms: int, now_ms: int) -> bool:
        return now_ms - contact_ms > self._config.session_timeout_ms

    def _forgive_pause(self, now_ms: int) -> None:
        delay_ms = now_ms - self._next_look_ms
        if delay_ms > self._config.look_interval_ms:
            # Due at once: a controller that stands still again before its next look must look, too.
            self._next_look_ms = now_ms
            for broker, contact_ms in self._contacts.items():
                self._contacts[broker] = min(now_ms, contact_ms + delay_ms)


def is_stale(image: ClusterImage, broker: BrokerIdAndEpoch) -> bool:
    """Whether the registration of an expired session is still there and must be fenced."""
    registered = image.brokers.get(broker.broker_id)
    return registered is not None and registered.epoch == broker.epoch and not registered.fenced
