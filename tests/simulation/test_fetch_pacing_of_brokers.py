"""A client that pauses when its queue is full, at a whole broker: fewer pauses, more records."""

import asyncio
from typing import NamedTuple

import pytest

from tierlog.clients.producer.producer import Producer
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.header import RequestHeader, encode_request_header
from tierlog.clients.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tierlog.tests.simulation.broker import PORT, SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import Conditions, SimulatedNetwork, on_host

from .broker_clients import TOPIC, create_topic

_VALUE_BYTES = 500_000
_RECORDS = 240
_QUEUE_BYTES = 6_000_000
_APPLICATION = 12e6
"""Bytes a second that are taken from the queue."""

_FAST = Conditions(piece_bytes_max=1 << 20, window_bytes=4 << 20)


class Outcome(NamedTuple):
    """Of reading the whole topic."""

    seconds: float
    pauses: int


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, offset: int) -> bytes:
    """One Fetch as librdkafka sends it: a partition, no session."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    header = RequestHeader(ApiKey.FETCH, 12, 1, "rdkafka")
    frame = encode_request_header(header) + encode_bytes(request, 12)
    writer.write(len(frame).to_bytes(4, "big") + frame)
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def _read_all(loop: SimulatedLoop, broker: SimulatedBroker) -> Outcome:
    reader, writer = await asyncio.open_connection(broker.host, PORT, limit=4 << 20)
    began = seen_at = loop.time()
    queued, offset, pauses = 0.0, 0, 0
    while offset < _RECORDS:
        response = await _ask(reader, writer, offset)
        offset += len(response) // _VALUE_BYTES
        now = loop.time()
        queued = max(0.0, queued - _APPLICATION * (now - seen_at)) + len(response)
        seen_at = now
        if queued >= _QUEUE_BYTES and offset < _RECORDS:
            pauses += 1
            await asyncio.sleep(1.0)
    writer.close()
    return Outcome(loop.time() - began, pauses)


async def _story(loop: SimulatedLoop, is_paced: bool) -> Outcome:
    properties = {"tierlog.fetch.pacing.enable": str(is_paced).lower()}
    broker = SimulatedBroker(loop, SimulatedNetwork(loop, _FAST), properties)
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        environment = SimulatedEnvironment(loop, "producer")
        async with Producer(broker.bootstrap, environment=environment) as producer:
            for number in range(_RECORDS):
                await producer.send(TOPIC, bytes([number % 256]) * _VALUE_BYTES, partition=0)
        outcome = await _read_all(loop, broker)
    await broker.stop()
    return outcome


@pytest.mark.parametrize("seed", range(2))
def test_a_client_that_pauses_when_its_queue_is_full_reads_the_topic_sooner(seed: int) -> None:
    outcomes: dict[bool, Outcome] = {}

    for is_paced in (True, False):

        async def story(loop: SimulatedLoop, is_paced: bool = is_paced) -> None:
            outcomes[is_paced] = await _story(loop, is_paced)

        simulate(story, seed, time_limit_s=3600)
    paced, unpaced = outcomes[True], outcomes[False]
    assert 1 <= paced.pauses < unpaced.pauses / 2, outcomes
    assert paced.seconds < 0.8 * unpaced.seconds, outcomes
