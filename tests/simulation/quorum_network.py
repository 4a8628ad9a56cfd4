"""Time and the network of a simulated quorum: an event queue, links, and connections over them.

Each node has one connection to each address it asks; requests arrive in their order and responses
in theirs. A link works in one direction and can be cut in one. What is sent over a cut link waits
until it heals, as TCP would send it again. A reset connection loses its responses, and a request
that was on its way may still arrive, long after what is sent over the next connection: that is how
requests are delivered twice and out of order. In bad weather a response arrives once more, late.
"""

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from tierlog.clients.errors import ErrorCode
from tierlog.replication.raft.raft_messages import RaftRequest, RaftResponse
from tierlog.replication.raft.voter_set import Address

PORT = 9093
_APART_MS = 0.001


class EventQueue:
    """Virtual time in milliseconds; what is due first happens first."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def after(self, delay_ms: float, act: Callable[[], None]) -> None:
        """Do something so many milliseconds from now."""
        heapq.heappush(self._queue, (self.now + delay_ms, next(self._numbers), act))

    def run_until(self, end_ms: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass to `end_ms`, or until `is_over`; whether it was over before."""
        while self._queue and self._queue[0][0] <= end_ms:
            self.now, _, act = heapq.heappop(self._queue)
            self.events += 1
            act()
            if is_over():
                return True
        self.now = end_ms
        return is_over()


class Host(Protocol):
    """A machine of the quorum, which may be up or down."""

    @property
    def id(self) -> int: ...

    @property
    def life(self) -> int:
        """How often it was started; 0 while it is down."""
        ...

    def receive(self, exchange: "Exchange") -> None: ...

    def receive_response(self, request_id: int, response: RaftResponse) -> None: ...

    def receive_failure(self, request_id: int, error: ErrorCode) -> None: ...


@dataclass(eq=False, slots=True)
class Exchange:
    """One request on its way, and the token to answer it with."""

    source: Host
    target: Host
    request_id: int
    request: RaftRequest
    source_life: int
    generation: int
    is_answered: bool = False


@dataclass(eq=False, slots=True)
class _Connection:
    """From one node to another: the times of the last arrivals, and what is not answered."""

    generation: int = 0
    last_arrival: dict[bool, float] = field(default_factory=lambda: {True: 0.0, False: 0.0})
    open: list[Exchange] = field(default_factory=list[Exchange])


@dataclass(slots=True)
class Weather:
    """What the network is like just now."""

    latency_ms_min: float = 0.2
    latency_ms_max: float = 5.0
    duplicate_responses: float = 0.0
    """The share of responses that arrive once more, up to 5 s later."""
    slow_messages: float = 0.0
    """The share of messages that take up to 4 s, with all behind them on their connection."""


class QuorumNetwork:
    """See the module."""

    def __init__(self, queue: EventQueue, chance: random.Random, counts: Counter[str]) -> None:
        self.weather = Weather()
        self.hosts: dict[int, Host] = {}
        self._queue = queue
        self._chance = chance
        self._counts = counts
        self._cut: Counter[tuple[int, int]] = Counter()
        self._held: dict[tuple[int, int], deque[Callable[[], None]]] = {}
        self._connections: dict[tuple[int, int], _Connection] = {}

    def send(self, source: Host, request_id: int, address: Address, request: RaftRequest) -> None:
        """Send a request over the connection to an address."""
        target = self.hosts[int(address.host.removeprefix("node"))]
        connection = self._connection(source, target)
        exchange = Exchange(source, target, request_id, request, source.life, connection.generation)
        connection.open.append(exchange)
        self._transmit(source, target, connection, lambda: self._arrive(exchange))

    def _connection(self, source: Host, target: Host) -> _Connection:
        return self._connections.setdefault((source.id, target.id), _Connection())

    def reply(self, exchange: Exchange, response: RaftResponse) -> None:
        """Send the response to a request, unless its connection is gone."""
        assert not exchange.is_answered, f"answered twice: {exchange.request}"
        exchange.is_answered = True
        connection = self._connection(exchange.source, exchange.target)
        if exchange.generation != connection.generation:
            self._counts["response of a lost connection"] += 1
            return

        def arrive() -> None:
            if exchange in connection.open:
                connection.open.remove(exchange)
                self._hand_in(exchange, response)

        self._transmit(exchange.target, exchange.source, connection, arrive)
        if self._chance.random() < self.weather.duplicate_responses:
            self._counts["duplicated response"] += 1
            self._queue.after(
                self._chance.uniform(0, 5000), lambda: self._hand_in(exchange, response)
            )

    def _hand_in(self, exchange: Exchange, response: RaftResponse) -> None:
        if exchange.source.life == exchange.source_life:
            exchange.source.receive_response(exchange.request_id, response)

    def _transmit(
        self, sender: Host, receiver: Host, connection: _Connection, arrive: Callable[[], None]
    ) -> None:
        """Let something arrive behind all that the sender has sent over the connection before."""
        weather = self.weather
        delay = self._chance.uniform(weather.latency_ms_min, weather.latency_ms_max)
        if weather.slow_messages and self._chance.random() < weather.slow_messages:
            self._counts["slow message"] += 1
            delay = self._chance.uniform(100, 4000)
        direction = sender.id < receiver.id
        at = max(self._queue.now + delay, connection.last_arrival[direction] + _APART_MS)
        connection.last_arrival[direction] = at
        link = (sender.id, receiver.id)

        def deliver() -> None:
            if link in self._cut:
                self._held.setdefault(link, deque()).append(arrive)
            else:
                arrive()

        self._queue.after(at - self._queue.now, deliver)

    def _arrive(self, exchange: Exchange) -> None:
        connection = self._connection(exchange.source, exchange.target)
        if exchange.target.life == 0:
            if exchange.generation == connection.generation:
                self._refuse(exchange, connection)
            return
        exchange.target.receive(exchange)

    def _refuse(self, exchange: Exchange, connection: _Connection) -> None:
        """Nobody listens: the sender is told, unless the way back is cut."""
        if exchange in connection.open:
            connection.open.remove(exchange)
        if (exchange.target.id, exchange.source.id) not in self._cut:
            self._fail(exchange)

    def refuse_version(self, exchange: Exchange) -> None:
        """Tell the sender that the other node does not know the version of its request."""
        connection = self._connection(exchange.source, exchange.target)
        if exchange in connection.open:
            connection.open.remove(exchange)
            self._fail(exchange, ErrorCode.UNSUPPORTED_VERSION)

    def _fail(self, exchange: Exchange, error: ErrorCode = ErrorCode.NETWORK_EXCEPTION) -> None:
        def fail() -> None:
            if exchange.source.life == exchange.source_life:
                exchange.source.receive_failure(exchange.request_id, error)

        self._queue.after(self._chance.uniform(0.1, self.weather.latency_ms_max), fail)

    def reset(self, source_id: int, target_id: int) -> None:
        """End a connection. Requests may still arrive; responses do not."""
        connection = self._connections.get((source_id, target_id))
        if connection is None:
            return
        connection.generation += 1
        connection.last_arrival = {True: 0.0, False: 0.0}
        for exchange in connection.open:
            self._fail(exchange)
            if self._chance.random() < 0.3:
                self._arrive_late(exchange)
        connection.open.clear()

    def _arrive_late(self, exchange: Exchange) -> None:
        """Deliver a request once more, long after: nobody waits for the response."""
        self._counts["late request"] += 1
        again = Exchange(
            exchange.source,
            exchange.target,
            exchange.request_id,
            exchange.request,
            exchange.source_life,
            exchange.generation,
        )
        self._queue.after(self._chance.uniform(0, 6000), lambda: self._arrive(again))

    def break_connections_of(self, host_id: int) -> None:
        """End all connections of a node that has died."""
        for source_id, target_id in list(self._connections):
            if host_id in (source_id, target_id):
                self.reset(source_id, target_id)

    def cut(self, *links: tuple[int, int]) -> None:
        """Let nothing through from the first node of each pair to the second."""
        self._cut.update(links)

    def is_cut(self, link: tuple[int, int]) -> bool:
        """Whether nothing comes through from the first node to the second."""
        return link in self._cut

    def mend(self, links: Iterable[tuple[int, int]]) -> None:
        """Undo one cut of these links; who cut them twice must mend them twice."""
        for link in links:
            self._cut[link] -= 1
            if self._cut[link] <= 0:
                del self._cut[link]
                self._release(link)

    def heal(self) -> None:
        """Let everything through again."""
        self._cut.clear()
        for link in list(self._held):
            self._release(link)

    def _release(self, link: tuple[int, int]) -> None:
        """Deliver what was held in its order, or lose the connections with it."""
        waiting = self._held.pop(link, ())
        if waiting and self._chance.random() < 0.5:
            self.reset(*link)
            self.reset(*reversed(link))
            return
        for index, arrive in enumerate(waiting):
            self._queue.after(self._chance.uniform(0, 1) + index, arrive)
