"""What clients cost that have not proven who they are: memory for each, and processor time.

The figures are printed (`pytest -s`). The bounds are generous, because machines differ; they fail
where the cost of a stranger grows with what it sends.
"""

import asyncio
import gc
import resource
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from time import process_time

import pytest

from tierlog.broker.dispatch.apis import Apis
from tierlog.broker.network.socket_server import STRANGERS_BYTES_MAX
from tierlog.clients.protocol.connection import FIRST_BUFFER_BYTES
from tierlog.tests.security.sasl.sasl_frames import BAD, authenticate, handshake, versions

from .listener_kinds import (
    BROKER,
    PROTOCOLS,
    Kind,
    Line,
    MemoryNetwork,
    PlainLine,
    TlsLine,
    kind_of,
    started_broker,
)

STRANGERS = 100
PLAIN_BYTES_MAX = 32 * 1024
"""Of a connection without TLS."""
TLS_BYTES_MAX = 192 * 1024
"""Of a connection with TLS: most of it is OpenSSL's."""
CPU_S_A_FRAME = 0.05
CPU_S_A_MEBIBYTE = 0.5
MAX_RECEIVE_BYTES = 524_288
LARGE = MAX_RECEIVE_BYTES - 200


async def nothing(_: PlainLine | TlsLine) -> None:
    """Connect, and say nothing."""


async def half_a_handshake(line: PlainLine | TlsLine) -> None:
    if isinstance(line, TlsLine):
        line.begin_handshake()


async def versions_alone(line: PlainLine | TlsLine) -> None:
    await line.send(versions())
    assert await line.answer()


async def half_a_token(line: PlainLine | TlsLine) -> None:
    await line.send(handshake())
    assert await line.answer()
    await line.send(LARGE_TOKEN, 100)


LARGE_TOKEN = authenticate(bytes(30_000))
"""Of which only the beginning is sent: it takes a buffer of FIRST_BUFFER_BYTES."""


async def a_wrong_password(line: PlainLine | TlsLine) -> None:
    await line.send(handshake())
    assert await line.answer()
    await line.send(authenticate(BAD))


Stage = Callable[[PlainLine | TlsLine], Awaitable[None]]
BEFORE_TLS: list[Stage] = [nothing, half_a_handshake]
STAGES: list[Stage] = [versions_alone, half_a_token, a_wrong_password]


def resident_bytes() -> int:
    """The memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def bytes_of_each(
    network: MemoryNetwork, stage: Stage, strangers: list[Line]
) -> tuple[int, int]:
    """Per stranger that gets that far: the bytes of Python's objects, and all resident ones."""

    async def arrive() -> None:
        line = await network.connect(shakes=stage not in BEFORE_TLS)
        strangers.append(line)
        await stage(line)
        await asyncio.sleep(0)
        if isinstance(line, TlsLine):
            line.strand()

    for _ in range(20):
        # What is made once is made by the first.
        await arrive()
    gc.collect()
    tracemalloc.start()
    resident, (counted, _) = resident_bytes(), tracemalloc.get_traced_memory()
    for _ in range(STRANGERS):
        await arrive()
    resident = resident_bytes() - resident
    gc.collect()
    counted = tracemalloc.get_traced_memory()[0] - counted
    tracemalloc.stop()
    return counted // STRANGERS, resident // STRANGERS


@pytest.mark.long
async def test_a_stranger_takes_little_memory_however_far_it_gets(tmp_path: Path) -> None:
    # Nobody leaves before the end: memory that is free again would be counted as nobody's.
    strangers: list[Line] = []

    async def measure(kind: Kind, network: MemoryNetwork, stage: Stage) -> None:
        counted, resident = await bytes_of_each(network, stage, strangers)
        print(f"{kind.protocol}, {stage.__name__}: {counted} B of objects, {resident} B in all")
        announced = FIRST_BUFFER_BYTES if stage is half_a_token else 0
        assert counted <= PLAIN_BYTES_MAX + announced
        own_bytes_max = TLS_BYTES_MAX if kind.has_tls else 2 * PLAIN_BYTES_MAX
        assert resident <= own_bytes_max + announced
        assert kind.server.receive_budget.used == 0
        assert kind.server.strangers.used == (STRANGERS + 20) * announced

    async with started_broker(tmp_path) as apis, AsyncExitStack() as listeners:
        for protocol in PROTOCOLS:
            for stage in (*BEFORE_TLS, *STAGES):
                if stage in STAGES and not protocol.startswith("SASL_"):
                    continue
                network = MemoryNetwork()
                listener = kind_of(apis, network, BROKER, protocol, failure_delay_s=600.0)
                kind = await listeners.enter_async_context(listener)
                await measure(kind, network, stage)
        for line in strangers:
            assert not line.is_closed
            line.leave()
    print(f"Partial frames of all strangers of SASL: {STRANGERS_BYTES_MAX} B at most")


HOSTILE = {
    "a refused ApiVersions": versions(wire_version=32767) + bytes(LARGE),
    "an ApiVersions without a name": versions(name=" ") + bytes(LARGE),
    "tagged fields": versions()[:-1] + b"\xff\xff\x1f" + b"\x00\x00" * (LARGE // 2),
    "a mechanism's name": handshake("A" * 32_000) + bytes(LARGE - 32_000),
    "a user's name": authenticate(b"\0" + b"a" * LARGE + b"\0b"),
    "a token of separators": authenticate(b"\0" * LARGE),
    "no request": bytes(LARGE),
}
"""Frames of nearly the largest size."""


@pytest.mark.slow
async def test_a_stranger_takes_little_processor_time_whatever_it_sends(tmp_path: Path) -> None:
    async def cost(network: MemoryNetwork, *frames: bytes) -> float:
        began, rounds = process_time(), 5
        for _ in range(rounds):
            line = await network.connect()
            for frame in frames:
                if not line.is_closed:
                    await line.send(frame)
                    await line.answer()
            line.leave()
        return (process_time() - began) / rounds

    async def story(apis: Apis) -> None:
        network = MemoryNetwork()
        async with kind_of(apis, network, BROKER, "SASL_PLAINTEXT"):
            seconds = await cost(network, handshake(), authenticate(BAD))
            print(f"a wrong password: {seconds * 1e6:.0f} µs")
            assert seconds <= CPU_S_A_FRAME
            for name, frame in HOSTILE.items():
                needs_handshake = frame[:2] == authenticate()[:2]
                before = [handshake()] if needs_handshake else []
                seconds = await cost(network, *before, frame)
                print(f"{len(frame)} bytes, {name}: {seconds * 1e3:.1f} ms")
                assert seconds <= CPU_S_A_MEBIBYTE

        async with kind_of(apis, network := MemoryNetwork(), BROKER, "SSL"):
            seconds = await cost(network)
            print(f"both sides of a TLS handshake: {seconds * 1e3:.1f} ms")
            assert seconds <= CPU_S_A_FRAME

    async with started_broker(tmp_path) as apis:
        await story(apis)
