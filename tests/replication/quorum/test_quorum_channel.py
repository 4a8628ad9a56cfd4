"""What a node's channel says of another node's process: it has ended, or it is only silent."""

import asyncio

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.replication.quorum.quorum_channel import QuorumChannel
from tierlog.replication.raft.raft_actions import Destination
from tierlog.replication.raft.raft_messages import VoteRequest
from tierlog.replication.raft.voter_set import Address
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, running
from tierlog.tests.simulation.network import SimulatedNetwork, on_host

REQUEST = VoteRequest("cluster", 2, ZERO_UUID, 1, ZERO_UUID, 1, 0, 0)
TIMEOUT_MS = 200


async def fail(channel: QuorumChannel, address: Address) -> None:
    with pytest.raises(KafkaError):
        await channel.request(Destination(2, address), REQUEST)


async def test_a_process_has_ended_since_its_first_connection_was_closed() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    loop = asyncio.get_running_loop()
    channel = QuorumChannel(1, SystemEnvironment())
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    address = Address(*server.sockets[0].getsockname())
    assert channel.ended_since(address) is None
    began = loop.time()
    await fail(channel, address)
    first = channel.ended_since(address)
    assert first is not None
    assert began <= first <= loop.time()
    server.close()
    await server.wait_closed()
    await fail(channel, address)  # refused
    assert channel.ended_since(address) == first
    assert channel.failed_since(address, first)
    await channel.close()


async def test_a_process_that_is_only_silent_has_not_ended() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ends.put_nowait(None)

    ends = asyncio.Queue[None]()
    channel = QuorumChannel(1, SystemEnvironment(), request_timeout_ms=TIMEOUT_MS)
    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    address = Address(*server.sockets[0].getsockname())
    for _ in range(2):
        await fail(channel, address)
        assert channel.ended_since(address) is None
        await ends.get()
    await channel.close()
    server.close()


def test_only_a_node_without_a_listener_refuses() -> None:
    """One that hears nothing behind a cut does not."""
    with running(SimulatedLoop(1)) as loop, on_host("one"):
        network = SimulatedNetwork(loop)
        channel = QuorumChannel(1, SimulatedEnvironment(loop), request_timeout_ms=TIMEOUT_MS)
        two = Destination(2, Address("two", 9093))

        async def story() -> None:
            network.part(["one"], ["two"])
            await fail(channel, two.address)
            assert not channel.failed_since(two.address, 0)
            assert not await channel.refuses(two)
            network.heal()
            await fail(channel, two.address)
            assert channel.failed_since(two.address, 0)
            assert await channel.refuses(two)
            await channel.close()

        loop.run_until_complete(story())
