"""The requests in flight: one for each connection, with a timeout and a pause after a failure.

A node is identified by its id, a bootstrap server by a negative id (Kafka's `RequestManager`). A
response to a request that is no longer in flight is ignored: so nothing of an earlier epoch or
state, and nothing twice, is acted upon.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from .raft_actions import Destination, Send
from .raft_messages import RaftRequest
from .voter_set import VoterSet


class InFlight(NamedTuple):
    """A request that awaits its response."""

    send: Send
    deadline_ms: int


class RequestManager:
    """All connections of one node."""

    def __init__(self, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._in_flight: dict[int, InFlight] = {}
        self._backoff_ends_ms: dict[int, int] = {}
        self._last_id = 0

    @property
    def has_any_in_flight(self) -> bool:
        return bool(self._in_flight)

    @property
    def deadline_ms(self) -> int | None:
        """When the first request times out, or the first pause ends."""
        ends = [flight.deadline_ms for flight in self._in_flight.values()]
        return min([*ends, *self._backoff_ends_ms.values()], default=None)

    def is_ready(self, node_id: int) -> bool:
        """Whether a request may be sent to a node. Call `expire` before."""
        return node_id not in self._in_flight and node_id not in self._backoff_ends_ms

    def is_backing_off(self, node_id: int) -> bool:
        """Whether the last request to a node has failed just now."""
        return node_id in self._backoff_ends_ms

    def send(self, destination: Destination, request: RaftRequest, now_ms: int) -> Send:
        """Note a request to a ready node."""
        assert self.is_ready(destination.node_id), "one request at a time for each connection"
        self._last_id += 1
        send = Send(self._last_id, destination, request)
        self._in_flight[destination.node_id] = InFlight(send, now_ms + self._request_timeout_ms)
        return send

    def take(self, request_id: int) -> Send | None:
        """Remove a request whose response has come; None if it is not in flight any more."""
        for node_id, flight in self._in_flight.items():
            if flight.send.request_id == request_id:
                del self._in_flight[node_id]
                return flight.send
        return None

    def back_off(self, node_id: int, now_ms: int) -> None:
        """Send nothing to a node for a while."""
        self._backoff_ends_ms[node_id] = now_ms + self._retry_backoff_ms

    def expire(self, now_ms: int) -> None:
        """Drop requests that have timed out, and end pauses."""
        for node_id, end_ms in list(self._backoff_ends_ms.items()):
            if end_ms <= now_ms:
                del self._backoff_ends_ms[node_id]
        for node_id, flight in list(self._in_flight.items()):
            if flight.deadline_ms <= now_ms:
                del self._in_flight[node_id]
                self.back_off(node_id, now_ms)

    def reset(self) -> None:
        """Forget everything: the state that sent the requests is over."""
        self._in_flight.clear()
        self._backoff_ends_ms.clear()

    def any_ready(self, servers: Iterable[Destination], random: Random) -> Destination | None:
        """A random server that is ready."""
        ready: Sequence[Destination] = [
            server for server in servers if self.is_ready(server.node_id)
        ]
        return random.choice(ready) if ready else None


def voter_destination(voters: VoterSet, node_id: int, listener: str) -> Destination | None:
    """Where requests to a voter go; None if it has no address on the listener."""
    address = voters.address(node_id, listener)
    return None if address is None else Destination(node_id, address)
