"""What a listener makes of the connections that it accepts."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tierlog.broker.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.transport import AttachableTransport, Network, StreamNetwork
from tierlog.storage.files import FileRegion, OsFiles


def sockets_of_this_process() -> Iterator[socket.socket]:
    """Each connected one, on a descriptor of our own."""
    for name in os.listdir("/proc/self/fd"):
        try:
            found = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            # Something else is open there, or it is closed by now.
            continue
        with found:
            yield found


def congestion_control_towards(client: socket.socket) -> bytes:
    """What the other end of a client's connection uses."""
    for found in sockets_of_this_process():
        try:
            peer = found.getpeername()
        except OSError:
            continue
        if peer == client.getsockname():
            return found.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
    raise AssertionError("Nobody is connected to the client.")


def test_nobody_paces_what_goes_to_a_client_of_this_machine() -> None:
    assert asyncio.run(congestion_control_of_an_accepted_connection()) == b"reno"


async def congestion_control_of_an_accepted_connection() -> bytes:
    connected: asyncio.Queue[AttachableTransport] = asyncio.Queue()
    listener = await SocketNetwork(SocketOptions()).listen("127.0.0.1", 0, connected.put_nowait)
    listener.resume_accepting()
    with socket.create_connection(("127.0.0.1", listener.port)) as client:
        transport = await connected.get()
        found = congestion_control_towards(client)
        transport.close()
    listener.close()
    return found


@pytest.mark.parametrize("network", [lambda: SocketNetwork(SocketOptions()), StreamNetwork])
@pytest.mark.parametrize("nbytes", [1_000, 100_000])
def test_an_answer_whose_file_was_cut_meanwhile_ends_its_connection(
    tmp_path: Path, network: Callable[[], Network], nbytes: int
) -> None:
    handle = OsFiles().open(str(tmp_path / "segment"), create=True)
    handle.write_at(0, bytes(nbytes))
    region = handle.region(0, nbytes)
    handle.truncate(0)
    assert asyncio.run(asyncio.wait_for(what_arrives_of(region, network()), 10)) == b""


async def what_arrives_of(region: FileRegion, network: Network) -> bytes:
    """All that a client gets of a region after a header, until its connection ends."""
    connected: asyncio.Queue[AttachableTransport] = asyncio.Queue()
    listener = await network.listen("127.0.0.1", 0, connected.put_nowait)
    listener.resume_accepting()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    transport = await connected.get()
    transport.send([b"header", region])
    transport.flush()
    try:
        arrived = await reader.read()
    except ConnectionResetError:
        arrived = b""
    writer.close()
    listener.close()
    return arrived.removeprefix(b"header")
