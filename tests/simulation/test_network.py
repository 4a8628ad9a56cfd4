"""The simulated network behaves like TCP, and breaks like it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.tests.simulation.loop import DeadlockError, SimulatedLoop, simulate
from tierlog.tests.simulation.network import Conditions, SimulatedNetwork, on_host
from tierlog.tests.simulation.transport import SimulatedTransport

pytestmark = pytest.mark.simulated(time_limit_s=3600)

Body = Callable[[SimulatedNetwork], Coroutine[Any, Any, None]]


def on_a_network(body: Body, seed: int = 0, conditions: Conditions | None = None) -> None:
    async def story(loop: SimulatedLoop) -> None:
        await body(SimulatedNetwork(loop, conditions))

    simulate(story, seed, time_limit_s=3600)


@pytest.fixture
def network(loop: SimulatedLoop) -> SimulatedNetwork:
    return SimulatedNetwork(loop)


class Recorder(asyncio.Protocol):
    """Remembers all that it is told."""

    transport: SimulatedTransport

    def __init__(self) -> None:
        self.received = bytearray()
        self.pieces = 0
        self.events: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimulatedTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.pieces += 1

    def eof_received(self) -> bool | None:
        self.events.append("eof")
        return None

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class Echo(Recorder):
    """Sends back what it gets."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.transport.write(data)


async def connected(
    network: SimulatedNetwork, far: type[Recorder] = Recorder
) -> tuple[Recorder, Recorder]:
    """A pair of connected recorders: on host "a", and on host "b" behind a server."""
    made: list[Recorder] = []

    def accept() -> Recorder:
        made.append(far())
        return made[-1]

    with on_host("b"):
        await asyncio.get_running_loop().create_server(accept, "0.0.0.0", 9092)
    with on_host("a"):
        _, near = await asyncio.get_running_loop().create_connection(Recorder, "b", 9092)
    await asyncio.sleep(0)
    return near, made[0]


async def until(condition: Callable[[], bool]) -> None:
    """Wait in virtual time."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("It never came true.")


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32), writes=st.lists(st.binary(max_size=40_000), max_size=8))
def test_bytes_arrive_whole_and_in_order_whatever_the_pieces(
    seed: int, writes: list[bytes]
) -> None:
    async def body(network: SimulatedNetwork) -> None:
        near, far = await connected(network, Echo)
        for data in writes:
            near.transport.write(data)
        expected = b"".join(writes)
        await until(lambda: len(near.received) >= len(expected))
        assert far.received == near.received == expected

    on_a_network(body, seed)


async def test_a_large_write_arrives_in_several_pieces(network: SimulatedNetwork) -> None:
    near, far = await connected(network)
    near.transport.write(bytes(100_000))
    await until(lambda: len(far.received) == 100_000)
    assert far.pieces > 5


async def test_a_buffered_protocol_gets_its_own_buffer_filled(network: SimulatedNetwork) -> None:
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(7)
            self.received = b""

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            self.received += self.buffer[:nbytes]

    _, far = await connected(network)
    buffered = Buffered()
    far.transport.set_protocol(buffered)
    far.transport.peer.write(b"more than seven bytes at once")
    await until(lambda: len(buffered.received) == 29)
    assert buffered.received == b"more than seven bytes at once"


async def test_a_reader_that_pauses_stops_the_writer_and_no_byte_is_lost(
    network: SimulatedNetwork,
) -> None:
    near, far = await connected(network)
    far.transport.pause_reading()
    near.transport.write(bytes(300_000))
    await asyncio.sleep(10)
    assert near.events == ["pause"]
    assert far.received == b""
    assert near.transport.get_write_buffer_size() >= 300_000 - network.window_bytes
    far.transport.resume_reading()
    await until(lambda: len(far.received) == 300_000)
    assert near.events == ["pause", "resume"]


async def test_close_sends_what_was_written_then_the_end(network: SimulatedNetwork) -> None:
    near, far = await connected(network)
    near.transport.write(bytes(200_000))
    near.transport.close()
    near.transport.write(b"too late")
    assert await far.lost is None
    assert await near.lost is None
    assert len(far.received) == 200_000
    assert far.events == ["eof"]
    assert network.connections() == []


async def test_half_a_connection_can_end_while_the_other_half_goes_on(
    network: SimulatedNetwork,
) -> None:
    class AnswersAtTheEnd(Recorder):
        def eof_received(self) -> bool | None:
            self.transport.write(b"answer")
            self.transport.close()
            return True

    near, far = await connected(network, AnswersAtTheEnd)
    near.transport.write(b"question")
    near.transport.write_eof()
    await far.lost
    await near.lost
    assert (bytes(far.received), bytes(near.received)) == (b"question", b"answer")


async def test_abort_resets_the_peer(network: SimulatedNetwork) -> None:
    near, far = await connected(network)
    near.transport.abort()
    assert await near.lost is None
    assert isinstance(await far.lost, ConnectionResetError)


async def test_writing_to_an_end_that_is_closed_is_answered_with_a_reset(
    network: SimulatedNetwork,
) -> None:
    class StaysOpen(Recorder):
        def eof_received(self) -> bool | None:
            return True

    near, far = await connected(network, StaysOpen)
    near.transport.close()
    await near.lost
    far.transport.write(b"anyone?")
    assert isinstance(await far.lost, ConnectionResetError)


async def test_nobody_listens_nobody_answers(network: SimulatedNetwork) -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(Recorder, "b", 9092)
    server = await loop.create_server(Recorder, "b", 0)
    (name,) = server.sockets
    address = name.getsockname()
    with pytest.raises(OSError, match="in use"):
        await loop.create_server(Recorder, *address)
    server.close()
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(Recorder, *address)


async def test_a_partition_holds_what_is_on_its_way_and_healing_delivers_it(
    network: SimulatedNetwork,
) -> None:
    near, far = await connected(network)
    network.part({"a"}, {"b"})
    near.transport.write(bytes(range(250)) * 100)
    await asyncio.sleep(30)
    assert far.received == b""
    network.heal()
    near.transport.write(b"later")
    await until(lambda: far.received.endswith(b"later"))
    assert far.received == bytes(range(250)) * 100 + b"later"


async def test_connecting_across_a_partition_waits_until_it_heals(
    network: SimulatedNetwork,
) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_server(Recorder, "b", 9092)
    network.part({"localhost"}, {"b"})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(loop.create_connection(Recorder, "b", 9092), 5)
    loop.call_later(7, network.heal)
    began_s = loop.time()
    await loop.create_connection(Recorder, "b", 9092)
    assert loop.time() - began_s >= 7


def test_a_partition_that_never_heals_is_a_deadlock_without_a_timeout() -> None:
    async def body(network: SimulatedNetwork) -> None:
        network.part({"localhost"}, {"b"})
        await asyncio.get_running_loop().create_connection(Recorder, "b", 9092)

    with pytest.raises(DeadlockError):
        on_a_network(body)


async def test_a_cut_resets_both_ends(network: SimulatedNetwork) -> None:
    near, far = await connected(network)
    network.cut("a")
    assert isinstance(await near.lost, ConnectionResetError)
    assert isinstance(await far.lost, ConnectionResetError)


async def test_a_killed_process_gets_no_callback_and_its_peers_get_a_reset(
    network: SimulatedNetwork,
) -> None:
    loop = asyncio.get_running_loop()
    made: list[Recorder] = []

    def accept() -> Recorder:
        made.append(Recorder())
        return made[-1]

    with on_host("b") as process:
        await loop.create_server(accept, "b", 9092)
        waiting = loop.create_task(asyncio.Event().wait())
    _, near = await loop.create_connection(Recorder, "b", 9092)
    await asyncio.sleep(0)
    network.kill(process)
    assert isinstance(await near.lost, ConnectionResetError)
    assert not made[0].lost.done()
    assert waiting.cancelled()
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(Recorder, "b", 9092)
    with on_host("b"):
        await loop.create_server(Recorder, "b", 9092)
    await loop.create_connection(Recorder, "b", 9092)


async def test_callbacks_run_on_the_host_of_their_process(network: SimulatedNetwork) -> None:
    class Dialler(Recorder):
        def data_received(self, data: bytes) -> None:
            loop = asyncio.get_running_loop()
            self.dialling = loop.create_task(loop.create_connection(Recorder, "localhost", 9092))

    near, far = await connected(network, Dialler)
    near.transport.write(b"x")
    # Loopback on host "b" finds the server there; on "a" nobody would listen.
    await until(lambda: hasattr(far, "dialling"))
    assert isinstance(far, Dialler)
    transport, _ = await far.dialling
    assert transport.get_extra_info("sockname").host == "b"


async def test_asyncios_own_streams_work_on_it(network: SimulatedNetwork) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        writer.write(line.upper())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    await asyncio.start_server(answer, "127.0.0.1", 7)
    reader, writer = await asyncio.open_connection("127.0.0.1", 7)
    writer.write(b"hello\n")
    assert await reader.read() == b"HELLO\n"
    writer.close()
    await writer.wait_closed()


def _transcript(seed: int) -> list[tuple[float, int]]:
    seen: list[tuple[float, int]] = []

    class Watcher(Recorder):
        def data_received(self, data: bytes) -> None:
            seen.append((asyncio.get_running_loop().time(), len(data)))

    async def body(network: SimulatedNetwork) -> None:
        near, _ = await connected(network, Watcher)
        near.transport.write(bytes(150_000))
        await asyncio.sleep(60)

    on_a_network(body, seed)
    return seen


def test_the_same_seed_is_the_same_traffic() -> None:
    assert _transcript(1) == _transcript(1)
    assert _transcript(1) != _transcript(2)
