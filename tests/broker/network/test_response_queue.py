"""Produce requests that wait for followers hold up neither each other nor the order of answers.

Other requests behind them are handled once they are answered, as in Kafka: a client that asks on
the same connection sees what it has produced.
"""

import asyncio
from collections.abc import Callable, Generator

import pytest

from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Refused, Response
from tierlog.broker.network.response_queue import (
    PENDING_MAX,
    TRANSITIONS,
    GivenUp,
    Later,
    Pending,
    ResponseEvent,
    ResponseQueue,
    ResponseState,
)
from tierlog.broker.network.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.network.transport import Network
from tierlog.clients.protocol.connection import frame as framed
from tierlog.tests.broker.socket_peers import frame, running, saying, until
from tierlog.tests.simulation.streams import StreamNetwork

NETWORKS: list[Callable[[], Network]] = [lambda: SocketNetwork(SocketOptions()), StreamNetwork]


def produce(name: bytes) -> bytes:
    """A request that begins like Produce, whose ApiKey is 0."""
    return b"\0\0" + name


P1, P2, P3 = produce(b"p1"), produce(b"p2"), produce(b"p3")
ALONE, REFUSED = produce(b"alone"), produce(b"refused")


class Gates:
    """Answers each request: Produce waits with others of its kind behind it, that of a transaction
    alone, the rest at once. One is refused."""

    def __init__(self) -> None:
        self.gates: dict[bytes, asyncio.Future[object]] = {}
        self.handled: list[bytes] = []
        self.has_fixed = False
        """Whether some Produce could not be written into."""

    def answer(self, client: ConnectedClient, request: memoryview) -> Response:
        body = bytes(request)
        self.handled.append(body)
        if body == REFUSED:
            raise Refused("It has no response that could say so.")
        is_produce = body[:2] == b"\0\0"
        # The log stamps offset and leader epoch into the batches, where they are.
        self.has_fixed |= is_produce and request.readonly
        if not is_produce:
            return framed([body])
        gate = self.gates[body] = asyncio.get_running_loop().create_future()
        return DeferredResponse(gate, saying(body), is_pipelined=body != ALONE)

    def is_ahead(self, requests: list[bytes]) -> bool:
        """Whether as many of the requests as may be are handled."""
        done = sum(gate.done() for gate in self.gates.values())
        return len(self.gates) == min(done + PENDING_MAX, len(requests))

    def open(self, *bodies: bytes) -> None:
        for body in bodies:
            self.gates[body].set_result(None)


@pytest.mark.parametrize("network", NETWORKS)
async def test_what_is_ready_first_is_answered_in_the_order_of_the_requests(
    network: Callable[[], Network],
) -> None:
    gates = Gates()
    async with running(gates.answer, network=network()) as broker:
        peer = await broker.connect()
        requests = [P1, P2, P3]
        peer.writer.write(b"".join(map(frame, requests)))
        await until(lambda: gates.handled == requests)
        gates.open(P2, P3)
        other = await broker.connect()
        assert await other.ask(b"of another") == b"of another"
        gates.open(P1)
        assert [await peer.answer() for _ in requests] == requests
        assert await peer.ask(b"next") == b"next"


@pytest.mark.parametrize("network", NETWORKS)
async def test_only_so_many_requests_are_handled_ahead(network: Callable[[], Network]) -> None:
    gates = Gates()
    async with running(gates.answer, network=network()) as broker:
        peer = await broker.connect()
        requests = [produce(b"%d" % number) for number in range(PENDING_MAX + 2)]
        peer.writer.write(b"".join(map(frame, requests)))
        await until(lambda: len(gates.handled) == PENDING_MAX)
        other = await broker.connect()
        assert await other.ask(b"of another") == b"of another"
        assert gates.handled == [*requests[:PENDING_MAX], b"of another"]
        for request in requests:
            gates.open(request)
            assert await peer.answer() == request
            await until(lambda: gates.is_ahead(requests))


async def test_a_request_goes_ahead_of_a_response_that_is_made_in_several_steps() -> None:
    gates = Gates()
    step: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    requests = [produce(b"%d" % number) for number in range(PENDING_MAX + 1)]

    def in_two_steps(done: asyncio.Future[object]) -> Response:
        return DeferredResponse(step, saying(requests[1]))

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        response = gates.answer(client, request)
        if isinstance(response, DeferredResponse) and bytes(request) == requests[1]:
            return response._replace(respond=in_two_steps)
        return response

    async with running(answer) as broker:
        peer = await broker.connect()
        peer.writer.write(b"".join(map(frame, requests)))
        await until(lambda: len(gates.handled) == PENDING_MAX)
        gates.open(requests[1])
        other = await broker.connect()
        assert await other.ask(b"of another") == b"of another"
        gates.handled.remove(b"of another")
        gates.open(requests[0])
        assert await peer.answer() == requests[0]
        await until(lambda: gates.handled == requests)
        step.set_result(None)
        gates.open(*requests[2:])
        assert [await peer.answer() for _ in requests[1:]] == requests[1:]


async def test_a_request_that_waits_alone_is_answered_after_those_before_it() -> None:
    gates = Gates()
    async with running(gates.answer) as broker:
        peer = await broker.connect()
        requests = [P1, ALONE, P3]
        peer.writer.write(b"".join(map(frame, requests)))
        await until(lambda: ALONE in gates.gates)
        gates.open(ALONE)
        other = await broker.connect()
        assert await other.ask(b"of another") == b"of another"
        assert P3 not in gates.handled
        gates.open(P1)
        assert [await peer.answer() for _ in range(2)] == [P1, ALONE]
        await until(lambda: P3 in gates.gates)


async def test_nothing_waits_for_a_client_that_has_gone() -> None:
    gates = Gates()
    async with running(gates.answer) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(P1) + frame(P2))
        await until(lambda: len(gates.gates) == 2)
        peer.writer.close()
        await until(lambda: all(gate.cancelled() for gate in gates.gates.values()))


@pytest.mark.parametrize("network", NETWORKS)
async def test_another_request_is_handled_once_the_produces_before_it_are_answered(
    network: Callable[[], Network],
) -> None:
    gates = Gates()
    async with running(gates.answer, network=network()) as broker:
        peer = await broker.connect()
        large = b"large" * 100_000
        requests = [P1, P2, b"ListOffsets", P3, large]
        peer.writer.write(b"".join(map(frame, requests)))
        await until(lambda: len(gates.gates) == 2)
        other = await broker.connect()
        assert await other.ask(b"of another") == b"of another"
        gates.open(P1)
        assert await peer.answer() == P1
        assert gates.handled == [P1, P2, b"of another"]
        gates.open(P2)
        await until(lambda: P3 in gates.gates)
        gates.open(P3)
        assert [await peer.answer() for _ in requests[1:]] == requests[1:]
        assert await peer.ask(b"next") == b"next"


@pytest.mark.parametrize("network", NETWORKS)
async def test_a_produce_that_was_kept_twice_can_still_be_stamped(
    network: Callable[[], Network],
) -> None:
    """As a client sends them whose leaders change: P3 is kept behind one request, then another."""
    gates = Gates()
    async with running(gates.answer, network=network()) as broker:
        peer = await broker.connect()
        requests = [P1, b"Metadata", P2, b"Metadata again", P3]
        peer.writer.write(b"".join(map(frame, requests)))
        for body in [P1, P2, P3]:
            await until(lambda body=body: body in gates.gates)  # type: ignore[misc]  # bound now
            gates.open(body)
        assert [await peer.answer() for _ in requests] == requests
        assert not gates.has_fixed


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("bad", [frame(REFUSED), b"\xff\xff\xff\xff"])
async def test_the_requests_before_it_are_answered_before_a_bad_request_ends_the_connection(
    network: Callable[[], Network], bad: bytes
) -> None:
    gates = Gates()
    async with running(gates.answer, network=network()) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(P1) + frame(P2) + bad + frame(b"behind"))
        await until(lambda: len(gates.gates) == 2)
        other = await broker.connect()
        assert await other.ask(b"of another") == b"of another"
        gates.open(P1, P2)
        assert [await peer.answer() for _ in range(2)] == [P1, P2]
        assert await peer.is_closed_by_the_server()
        assert b"behind" not in gates.handled


async def test_an_answer_that_is_made_in_steps_keeps_its_place() -> None:
    """As that to a Produce with thousands of topics: its connection hung."""
    steps: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    gates = Gates()

    def in_steps(_: asyncio.Future[object]) -> Response:
        return DeferredResponse(steps, saying(P1))

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        response = gates.answer(client, request)
        if bytes(request) == P1:
            assert isinstance(response, DeferredResponse)
            return response._replace(respond=in_steps)
        return response

    async with running(answer) as broker:
        peer = await broker.connect()
        requests = [P1, P2, P3]
        peer.writer.write(b"".join(map(frame, requests)))
        await until(lambda: gates.handled == requests)
        gates.open(P1, P2, P3)
        other = await broker.connect()
        assert await other.ask(b"of another") == b"of another"
        steps.set_result(None)
        assert [await peer.answer() for _ in requests] == requests
        assert await peer.ask(b"next") == b"next"


READY, FULL, WAITING, MUTED, BLOCKED, ENDING, CLOSED = ResponseState

LEADS_TO = {
    ResponseEvent.DEFER: {READY: WAITING},
    ResponseEvent.MUTE: {READY: MUTED},
    ResponseEvent.FILL: {READY: FULL},
    ResponseEvent.ANSWER: dict.fromkeys([FULL, WAITING, MUTED], READY),
    ResponseEvent.BLOCK: {READY: BLOCKED},
    ResponseEvent.DRAIN: {BLOCKED: READY},
    ResponseEvent.GIVE_UP: {
        **dict.fromkeys([READY, FULL, WAITING, BLOCKED], WAITING),
        ENDING: ENDING,
    },
    ResponseEvent.END: dict.fromkeys([READY, FULL, WAITING, MUTED, BLOCKED], ENDING),
    ResponseEvent.LOSE: dict.fromkeys([*ResponseState][:-1], CLOSED),
}


@pytest.mark.parametrize("event", ResponseEvent)
@pytest.mark.parametrize("state", ResponseState)
def test_the_states_move_as_drawn(state: ResponseState, event: ResponseEvent) -> None:
    assert TRANSITIONS.get((state, event)) is LEADS_TO[event].get(state)


def later(loop: asyncio.AbstractEventLoop) -> Later:
    return Later(loop.create_future(), saying(b"late"))


@pytest.fixture
def loop() -> Generator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def queue_of(*responses: Pending) -> ResponseQueue:
    queue = ResponseQueue()
    queue.pending.extend(responses)
    return queue


def test_responses_leave_up_to_the_first_that_is_not_made(loop: asyncio.AbstractEventLoop) -> None:
    first, last = later(loop), later(loop)
    queue = queue_of(first, [b"second"], last)
    assert not list(queue.take_ready())
    first.work.set_result(None)
    assert list(queue.take_ready()) == [framed([b"late"]), [b"second"]]
    assert list(queue.pending) == [last]


def test_an_error_takes_its_turn_among_the_responses(loop: asyncio.AbstractEventLoop) -> None:
    queue = queue_of([b"first"], Refused("bad"), [b"behind"])
    ready = queue.take_ready()
    assert next(ready) == [b"first"]
    with pytest.raises(Refused, match="bad"):
        next(ready)


def test_a_full_queue_has_room_again_when_one_response_has_left(
    loop: asyncio.AbstractEventLoop,
) -> None:
    responses = [later(loop) for _ in range(PENDING_MAX)]
    queue = queue_of(*responses[:-1])
    queue.stop_when_full()
    assert queue.state is READY
    queue.pending.append(responses[-1])
    queue.stop_when_full()
    assert queue.state is FULL
    assert not queue.has_room
    responses[0].work.set_result(None)
    assert len(list(queue.take_ready())) == 1
    assert queue.has_room


def test_a_request_that_waits_for_all_has_no_room_before_the_last_has_left(
    loop: asyncio.AbstractEventLoop,
) -> None:
    responses = [later(loop), later(loop)]
    queue = queue_of(*responses)
    queue.move(ResponseEvent.DEFER)
    for response in responses:
        assert not queue.has_room
        response.work.set_result(None)
        assert len(list(queue.take_ready())) == 1
    assert queue.has_room


def test_a_peer_that_hangs_up_waits_for_nothing(loop: asyncio.AbstractEventLoop) -> None:
    response = later(loop)
    queue = queue_of(response, [b"behind"])
    queue.hang_up()
    assert queue.state is WAITING
    with pytest.raises(GivenUp):
        next(queue.take_ready())


def test_a_muted_peer_that_hangs_up_still_waits(loop: asyncio.AbstractEventLoop) -> None:
    mute = later(loop)
    queue = queue_of(mute)
    queue.move(ResponseEvent.MUTE)
    queue.hang_up()
    assert queue.state is MUTED
    assert not mute.work.done()
    queue.lose()
    assert mute.work.cancelled()
