"""Every sequence of what a client may send before it is authenticated, on every kind of listener.

A sequence is played on a connection of its own, against a real broker. Sequences share a play only
if they share all that the server sees: what comes behind the end of a connection is never read, and
a sequence that leaves its connection open is the beginning of longer ones. On a listener with TLS
alone, handshakes cost a millisecond and nothing is left to be proven: there, connections of which
the server remembers the same share their future, and each event is played in each such memory.
"""

import asyncio
import random
import ssl
from collections.abc import Sized
from enum import Enum
from pathlib import Path
from time import process_time
from typing import cast

import pytest

from tierlog.broker.dispatch.apis import Apis
from tierlog.broker.network import sasl_gate
from tierlog.broker.network.socket_listener import SocketNetwork, SocketOptions
from tierlog.security.session import SecurityProtocol
from tierlog.tests.async_tests import entered
from tierlog.tests.security.sasl.sasl_oracle import EVENTS

from .listener_kinds import (
    BROKER,
    CONTROLLER,
    PROTOCOLS,
    Line,
    MemoryNetwork,
    TlsLine,
    kind_of,
    started_broker,
)
from .listener_oracle import KindOracle, Sequence, error_of, plan, play_on_socket

KINDS: list[tuple[str, SecurityProtocol]] = [
    (name, protocol) for name in (BROKER, CONTROLLER) for protocol in PROTOCOLS
]


async def play(line: Line, oracle: KindOracle, sequence: Sequence) -> None:
    """Play a sequence, whose last event alone may end the connection."""
    for event in sequence:
        expected = oracle.outcome_of(event)
        await line.send(EVENTS[event])
        answer = await line.answer()
        error = None if answer is None else error_of(event, answer)
        assert error == expected.error, (sequence, event)
        if expected.is_end:
            # There is nothing more, and nobody listens any more.
            assert answer is None or await line.answer() is None, (sequence, event)
            assert line.is_closed
            return
    await asyncio.sleep(0)
    assert not line.is_closed, sequence


PASSING = {
    *("last_active", "_fd", "_loop", "_shaken_bytes", "_data_bytes"),
    *("_scratch", "_acceptor", "_owner", "_turns", "_budget", "_transport"),
    *("route", "context"),
}
"""What says nothing about the future: clocks, totals of bytes (that of TLS allows records without
data, of which no event has one), what all connections share, and what a header has by its bytes."""
OWN_MODULES = (
    "tierlog.broker.dispatch.apis",
    "tierlog.broker.network",
    "tierlog.security.tls.engine",
    "tierlog.clients.protocol.connection",
)


def remembered(part: object) -> object:
    """What the server remembers of a connection, part by part."""
    if part is None or isinstance(part, (int, float, str, bytes, Enum)):
        return part
    if isinstance(part, ssl.MemoryBIO):
        return part.pending
    if isinstance(part, (bytearray, memoryview)):
        return bytes(cast("bytearray | memoryview", part))
    if isinstance(part, tuple):
        return tuple(map(remembered, cast("tuple[object, ...]", part)))
    names = {name for each in type(part).__mro__ for name in getattr(each, "__slots__", ())}
    if not names or not type(part).__module__.startswith(OWN_MODULES):
        held = cast("Sized", part)
        return type(part).__name__, len(held) if hasattr(part, "__len__") else 0
    return {name: remembered(getattr(part, name, None)) for name in sorted(names - PASSING)}


async def play_kind(
    apis: Apis, name: str, protocol: SecurityProtocol, length: int
) -> tuple[int, int]:
    """Play every sequence; returns how many were played, and for how many they stand."""
    sequences, count = plan(name, protocol, length)
    network = MemoryNetwork()
    async with kind_of(apis, network, name, protocol) as kind:
        for sequence in sequences:
            line = await network.connect()
            await play(line, KindOracle(name, protocol), sequence)
            line.leave()
        assert not kind.connection_count
    return len(sequences), count


@pytest.fixture
def apis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apis:
    """A broker whose failed clients do not wait."""
    monkeypatch.setattr(sasl_gate, "_LINGER_S", 0.0)
    return entered(started_broker(tmp_path))


@pytest.mark.slow
async def test_every_sequence_of_up_to_two_gets_what_its_listener_allows(apis: Apis) -> None:
    for name, protocol in KINDS:
        _, count = await play_kind(apis, name, protocol, 2)
        assert count == 12 + 12**2


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "protocol"), [(name, protocol) for name, protocol in KINDS if protocol != "SSL"]
)
async def test_every_sequence_of_up_to_five_gets_what_its_listener_allows(
    apis: Apis, name: str, protocol: SecurityProtocol
) -> None:
    began = process_time()
    played, count = await play_kind(apis, name, protocol, 5)
    assert count == 271_452
    seconds = process_time() - began
    print(f"{name} {protocol}: {count} sequences by {played} plays in {seconds:.1f} s of CPU")


@pytest.mark.long
@pytest.mark.parametrize("name", [BROKER, CONTROLLER])
async def test_an_open_tls_connection_has_few_memories_and_each_allows_the_same(
    apis: Apis, name: str
) -> None:
    """Every event is played in every memory that a sequence can lead to, however long it is."""
    network = MemoryNetwork()
    memories: dict[str, Sequence] = {"new": ()}
    plays = 0
    async with kind_of(apis, network, name, "SSL"):
        queue: list[Sequence] = [()]
        for beginning in queue:
            for event in EVENTS:
                sequence = (*beginning, event)
                line = await network.connect()
                await play(line, KindOracle(name, "SSL"), sequence)
                plays += 1
                memory = repr(remembered(line.transport))
                if not line.is_closed and memory not in memories:
                    memories[memory] = sequence
                    queue.append(sequence)
                line.leave()
            assert len(memories) <= 1 + len(EVENTS)
    print(f"{name} SSL: every sequence by {plays} plays in {len(memories)} memories")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
async def test_before_its_handshake_a_tls_listener_answers_nothing_at_all(
    apis: Apis, protocol: SecurityProtocol
) -> None:
    """Each event ends the connection, so no sequence gets further than its first event."""
    for name in (BROKER, CONTROLLER):
        network = MemoryNetwork()
        async with kind_of(apis, network, name, protocol):
            for frame in EVENTS.values():
                line = await network.connect(shakes=False)
                assert isinstance(line, TlsLine)
                assert await line.answer_to_plain_text(frame) == b""
                line.leave()


@pytest.mark.long
async def test_a_sample_gets_the_same_through_real_sockets(apis: Apis) -> None:
    draw = random.Random(29)
    for name, protocol in KINDS:
        sequences, _ = plan(name, protocol, 5)
        network = SocketNetwork(SocketOptions())
        async with kind_of(apis, network, name, protocol) as kind:
            for sequence in draw.sample(sequences, 100):
                await play_on_socket(name, protocol, kind.port, sequence)
