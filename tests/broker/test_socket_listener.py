"""What a listener makes of the connections that it accepts."""

import asyncio
import os
import socket
from collections.abc import Iterator

from tierlog.broker.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.transport import AttachableTransport


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
