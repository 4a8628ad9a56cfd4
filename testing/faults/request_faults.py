"""Faults of requests, as a test sets them: errors, delays, lost connections, silence, throttling.

    with broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2) as fault:
        producer.produce("orders", b"first")
        producer.flush()
    assert fault.count == 2

They concern the requests of all clients, but not those by which the broker keeps the metadata of
its tier. Tests set them from their own threads, and the broker's loop asks about each request: one
lock guards the table. `faulty_answers.py` does what is decided here.
"""

import asyncio
import threading
from collections import deque
from typing import Literal, NamedTuple

from ...clients.protocol.api import request_class
from ...clients.protocol.header import RequestHeader
from .fault import Fault
from .fault_rules import Decision, FaultKind, FaultRules, Rule, Topics
from .names import api_key_of, api_name_of, checked_seconds, checked_times, error_code_of
from .topics_of_requests import can_name_topics

REQUESTS_KEPT_MAX = 10_000
"""How many requests `RequestFaults.requests` has; older ones are forgotten."""


class ReceivedRequest(NamedTuple):
    """A request that came, and what it met."""

    api: str
    version: int
    client_id: str | None
    faults: tuple[str, ...]
    """The faults that it met, such as ("fail",)."""


class RequestFaults:
    """The faults that requests meet now. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._rules = FaultRules()
        self._received: deque[ReceivedRequest] = deque(maxlen=REQUESTS_KEPT_MAX)
        self._faults: dict[Rule, Fault] = {}
        self._silenced: dict[Rule, set[asyncio.Future[object]]] = {}
        self._bell = threading.Condition()
        """Guards all of the above, and wakes the threads that wait for a request."""

    def fail(
        self, api: str, error: str | int, times: int | None = None, topic: str | None = None
    ) -> Fault:
        """Answer requests of an API with an error, without handling them.

        `error` is a name or number of Kafka's; it stands in the response where Kafka puts it.
        Raises ValueError for a name that Kafka does not have, or a topic that the API never names.
        """
        code = error_code_of(error)
        rule = self._rule(FaultKind.FAIL, api, times, topic)
        rule.error = code
        return self._add(rule, f"{api} fails with {code.name}")

    def delay(
        self, api: str, seconds: float, times: int | None = None, topic: str | None = None
    ) -> Fault:
        """Handle requests of an API so much later. Raises ValueError, as `fail` does."""
        rule = self._rule(FaultKind.DELAY, api, times, topic)
        rule.seconds = checked_seconds(seconds)
        return self._add(rule, f"{api} is delayed by {seconds:g} s")

    def drop(
        self,
        api: str,
        when: Literal["before", "after"] = "before",
        times: int | None = 1,
        topic: str | None = None,
    ) -> Fault:
        """Close the connection of requests of an API, before or after they are handled.

        After: what a Produce request brings is written, and its client cannot know. Raises
        ValueError, as `fail` does.
        """
        kinds = {"before": FaultKind.DROP_BEFORE, "after": FaultKind.DROP_AFTER}
        kind = kinds.get(when)
        if kind is None:
            raise ValueError(f'A connection is dropped "before" or "after", not {when!r}.')
        rule = self._rule(kind, api, times, topic)
        return self._add(rule, f"the connection is closed {when} {api} is handled")

    def silence(self, api: str, times: int | None = None, topic: str | None = None) -> Fault:
        """Leave requests of an API without an answer, and their connections unread.

        As a broker does that hangs. Where the client still waits when the fault ends, its request
        is handled then. Raises ValueError, as `fail` does.
        """
        rule = self._rule(FaultKind.SILENCE, api, times, topic)
        return self._add(rule, f"{api} gets no answer")

    def throttle(
        self, api: str, seconds: float, times: int | None = None, topic: str | None = None
    ) -> Fault:
        """Answer requests of an API with this throttle time, as to a client above its quota.

        The answer leaves at once; what the client sends after it is read so much later. Raises
        ValueError, as `fail` does.
        """
        rule = self._rule(FaultKind.THROTTLE, api, times, topic)
        rule.seconds = checked_seconds(seconds)
        return self._add(rule, f"{api} is throttled for {seconds:g} s")

    def clear(self) -> None:
        """End all faults."""
        with self._bell:
            faults = list(self._faults.values())
        for fault in faults:
            fault.end()

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests that came since the start, the last REQUESTS_KEPT_MAX of them."""
        with self._bell:
            return list(self._received)

    def _rule(self, kind: FaultKind, api: str, times: int | None, topic: str | None) -> Rule:
        key = api_key_of(api)
        if topic is not None and not can_name_topics(request_class(key)):
            raise ValueError(f"{api} requests name no topic: leave the topic out.")
        return Rule(kind, key, topic, left=checked_times(times))

    def _add(self, rule: Rule, sentence: str) -> Fault:
        fault = Fault(sentence, lambda: rule.met, lambda: self._end(rule), self._bell)
        with self._bell:
            self._rules.add(rule)
            self._faults[rule] = fault
        return fault

    def _end(self, rule: Rule) -> None:
        with self._bell:
            self._rules.remove(rule)
            self._faults.pop(rule, None)
            silenced = self._silenced.pop(rule, set())
        for future in silenced:
            loop = future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_let_go_on, future)

    # Called on the broker's loop.

    def decide(self, header: RequestHeader, topics: Topics) -> Decision:
        """What to do with a request that has come."""
        with self._bell:
            decision = self._rules.decide(header.api_key, topics)
            names = tuple(rule.kind.value for rule in decision.met)
            self._received.append(
                ReceivedRequest(
                    api_name_of(header.api_key), header.api_version, header.client_id, names
                )
            )
            for rule in decision.met:
                if rule.left == 0 and rule.kind is not FaultKind.SILENCE:
                    self._faults.pop(rule, None)
            self._bell.notify_all()
        return decision

    def until_ended(self, rule: Rule) -> asyncio.Future[object]:
        """A future of the running loop that is done when the fault of this rule has ended."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        with self._bell:
            if rule in self._faults:
                self._silenced.setdefault(rule, set()).add(future)
            else:
                future.set_result(None)
        future.add_done_callback(lambda done: self._forget(rule, done))
        return future

    def _forget(self, rule: Rule, future: asyncio.Future[object]) -> None:
        with self._bell:
            self._silenced.get(rule, set()).discard(future)


def _let_go_on(future: asyncio.Future[object]) -> None:
    if not future.done():
        future.set_result(None)
