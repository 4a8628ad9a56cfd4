"""One loop for all: a client with many requests at once lets the others have their turns."""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

import pytest

from tierlog.broker.network import receive_budget
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Response
from tierlog.broker.network.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.network.transport import Network
from tierlog.broker.network.turns import REQUESTS_A_TURN, Turns
from tierlog.clients.protocol.connection import frame as framed
from tierlog.tests.broker.socket_peers import Peer, frame, running, saying, until
from tierlog.tests.simulation.streams import StreamNetwork

NETWORKS: list[Callable[[], Network]] = [lambda: SocketNetwork(SocketOptions()), StreamNetwork]
MANY = 20_000


class Counting:
    """Answers with the request, and knows how many each client has had answered."""

    def __init__(self) -> None:
        self.answered: dict[ConnectedClient, int] = {}
        self.most_before_the_last = 0
        """How many somebody had had when the last client that came got its first."""

    def __call__(self, client: ConnectedClient, request: memoryview) -> Response:
        if client not in self.answered:
            self.most_before_the_last = self.most
        self.answered[client] = self.answered.get(client, 0) + 1
        return framed([bytes(request)])

    @property
    def most(self) -> int:
        return max(self.answered.values(), default=0)


async def flooded(peer: Peer) -> None:
    """Send more small requests than fit into a turn; they arrive in one read or two."""
    peer.writer.write(b"".join(frame(struct.pack(">i", number)) for number in range(MANY)))


async def read_answers(peer: Peer) -> None:
    for number in range(MANY):
        assert await peer.answer() == struct.pack(">i", number)


@pytest.mark.parametrize("network", NETWORKS)
async def test_a_client_is_answered_between_the_many_requests_of_another(
    network: Callable[[], Network],
) -> None:
    answer = Counting()
    async with running(answer, network=network()) as broker:
        greedy, modest = await broker.connect(), await broker.connect()
        await modest.ask(b"here")
        await flooded(greedy)
        await until(lambda: answer.most > 1)
        assert await modest.ask(b"and I?") == b"and I?"
        assert answer.most < MANY / 2
        await read_answers(greedy)


async def test_the_line_goes_on_after_a_connection_that_fails() -> None:
    class Failing:
        def take_turn(self, deadline: float) -> None:
            raise ZeroDivisionError("a fault of ours")

    class Waiting:
        had_its_turn = False

        def take_turn(self, deadline: float) -> None:
            self.had_its_turn = True

    exceptions: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: exceptions.append(context["exception"])
    )
    turns, behind = Turns(), Waiting()
    turns.join(Failing())
    turns.join(behind)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert behind.had_its_turn
    assert len(exceptions) == 1


async def test_many_greedy_clients_take_turns() -> None:
    answer = Counting()
    async with running(answer) as broker:
        greedy = [await broker.connect() for _ in range(8)]
        for peer in greedy:
            await flooded(peer)
        await until(lambda: len(answer.answered) == 8)
        # Whoever came first has not been answered to the end before the last begins.
        assert answer.most_before_the_last < MANY / 2
        for peer in greedy:
            await read_answers(peer)


async def test_a_turn_is_bounded_also_where_no_time_passes() -> None:
    """As in a simulation, where the clock stands still while a callback runs."""

    class Taker:
        def __init__(self, line: Turns) -> None:
            self.turns = 0
            self.line = line

        def take_turn(self, deadline: float) -> None:
            self.turns += 1
            self.line.join(self)

    line = Turns()
    takers = [Taker(line) for _ in range(3)]
    for each in takers:
        line.join(each)
    await asyncio.sleep(0)
    assert all(each.turns <= 1 for each in takers)
    while min(each.turns for each in takers) < 50:
        await asyncio.sleep(0)
        assert max(each.turns for each in takers) - min(each.turns for each in takers) <= 1


async def test_those_who_are_read_in_one_round_share_its_time() -> None:
    """However many they are: a deadline for each would add up."""
    line = Turns()
    now = asyncio.get_running_loop().time()
    first = line.deadline(now)
    assert first > now
    assert line.deadline(now + 1.0) < now + 1.0
    await asyncio.sleep(0)
    assert line.deadline(now + 1.0) > now + 1.0


async def test_only_the_time_of_answering_counts() -> None:
    """Those who are read later have less by it, and by none in which nobody had his turn."""
    line = Turns()
    now = asyncio.get_running_loop().time()
    whole = line.deadline(now) - now
    line.over(now + whole * 0.75)
    assert now < line.deadline(now) < now + whole * 0.5
    line.over(now)
    await asyncio.sleep(0)
    assert line.deadline(now) == pytest.approx(now + whole)
    line.over(now + whole / 100)
    later = now + 1_000.0
    assert line.deadline(later) > later + whole * 0.9


async def test_a_short_read_asks_nothing_of_the_loop() -> None:
    asked: list[object] = []
    loop = asyncio.get_running_loop()
    line = Turns()
    now = loop.time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_soon", asked.append)
        whole = line.deadline(now) - now
        line.over(now + whole / 20)
        assert not asked
        for _ in range(20):
            line.deadline(now)
            line.over(now + whole / 20)
        # However many there are: their time adds up.
        assert len(asked) == 1
        assert line.deadline(now) <= now


async def test_what_was_answered_in_a_turn_leaves_with_it() -> None:
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        return (
            DeferredResponse(gate, saying(b"late"))
            if bytes(request) == b"wait"
            else framed([b"now"])
        )

    async with running(answer) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(b"x") * (3 * REQUESTS_A_TURN) + frame(b"wait") + frame(b"x"))
        for _ in range(3 * REQUESTS_A_TURN):
            assert await peer.answer() == b"now"
        gate.set_result(None)
        assert await peer.answer() == b"late"
        assert await peer.answer() == b"now"


async def test_requests_of_a_client_that_needs_no_answers_are_done_although_it_has_gone() -> None:
    """A producer with acks=0 sends what it has and closes."""
    done = 0

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        nonlocal done
        done += 1
        return ()

    async with running(answer) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(b"x") * MANY)
        await peer.writer.drain()
        peer.writer.close()
        await until(lambda: done == MANY)
        await until(lambda: broker.metric("connection-count") == 0)


async def test_a_client_that_goes_while_more_lies_behind_its_waiting_request_is_noticed() -> None:
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    done: list[bytes] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        done.append(bytes(request))
        return DeferredResponse(gate, saying(b"never")) if bytes(request) == b"wait" else ()

    async with running(answer) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(b"wait") + frame(b"behind") * 3)
        await until(lambda: done == [b"wait"])
        # Not read any more from here on.
        peer.writer.write(frame(b"later") * 3)
        await peer.writer.drain()
        peer.writer.close()
        await until(gate.cancelled)
        await until(lambda: broker.metric("connection-count") == 0)
        assert done == [b"wait"]


async def test_a_second_request_that_would_wait_is_not_begun_once_the_client_has_gone() -> None:
    gates: list[asyncio.Future[object]] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        gates.append(asyncio.get_running_loop().create_future())
        return DeferredResponse(gates[-1], saying(b"never"))

    async with running(answer) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(b"wait") * 5)
        await until(lambda: len(gates) == 1)
        peer.writer.close()
        await until(lambda: broker.metric("connection-count") == 0)
        assert [gate.cancelled() for gate in gates] == [True]


async def test_the_end_of_a_stream_is_seen_also_behind_more_than_the_system_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive_budget, "_LOOK_AHEAD_S", 0.05)

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        if bytes(request) != b"wait":
            return ()
        return DeferredResponse(asyncio.get_running_loop().create_future(), saying(b"never"))

    async with running(answer) as broker:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", broker.port)) as client:
                client.setblocking(False)
                client.send(frame(b"wait"))
                await until(lambda: broker.metric("connection-count") == 1)
                await asyncio.sleep(0.01)
                # More than the server's system takes without anybody reading.
                behind = memoryview(frame(bytes(1_000)) * 2_000)
                with suppress(BlockingIOError):
                    while behind:
                        behind = behind[client.send(behind) :]
            await until(lambda: broker.metric("connection-count") == 0)
