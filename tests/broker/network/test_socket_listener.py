"""What a listener makes of the connections that it accepts."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tierlog.broker.network.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.network.transport import AttachableTransport, Network
from tierlog.storage.files import FileRegion, OsFiles
from tierlog.tests.simulation.streams import StreamNetwork


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


def congestion_control_of(found: socket.socket) -> bytes:
    return found.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def congestion_control_towards(client: socket.socket) -> bytes:
    """What the other end of a client's connection uses."""
    for found in sockets_of_this_process():
        try:
            peer = found.getpeername()
        except OSError:
            continue
        if peer == client.getsockname():
            return congestion_control_of(found)
    raise AssertionError("Nobody is connected to the client.")


def congestion_control_of_the_listener(port: int) -> bytes:
    """What its connections have from their first packet on."""
    for found in sockets_of_this_process():
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if listens and found.getsockname()[1] == port:
            return congestion_control_of(found)
    raise AssertionError("Nobody listens there.")


def test_nobody_paces_what_goes_to_a_client_of_this_machine() -> None:
    inherited, found = asyncio.run(congestion_control_of_an_accepted_connection())
    assert found == b"reno"
    # What began with BBR stays paced even without it.
    assert inherited == b"reno"


def test_a_client_from_elsewhere_is_sent_to_as_the_system_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not every machine has an address that is not its loopback's.
    monkeypatch.setattr(
        "tierlog.broker.network.socket_listener._LOOPBACK", "no address begins like this"
    )
    with socket.socket() as usual:
        of_the_system = congestion_control_of(usual)
    _, found = asyncio.run(congestion_control_of_an_accepted_connection())
    assert found == of_the_system


async def congestion_control_of_an_accepted_connection() -> tuple[bytes, bytes]:
    """The listener's, and that of a connection to it."""
    connected: asyncio.Queue[AttachableTransport] = asyncio.Queue()
    listener = await SocketNetwork(SocketOptions()).listen("127.0.0.1", 0, connected.put_nowait)
    listener.resume_accepting()
    with socket.create_connection(("127.0.0.1", listener.port)) as client:
        transport = await connected.get()
        found = congestion_control_towards(client)
        transport.close()
    inherited = congestion_control_of_the_listener(listener.port)
    listener.close()
    return inherited, found


@pytest.mark.parametrize("network", [lambda: SocketNetwork(SocketOptions()), StreamNetwork])
@pytest.mark.parametrize("nbytes", [1_000, 100_000])
def test_an_answer_whose_file_was_cut_meanwhile_ends_its_connection(
    tmp_path: Path, network: Callable[[], Network], nbytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    handle = OsFiles().open(str(tmp_path / "segment"), create=True)
    handle.write_at(0, bytes(nbytes))
    region = handle.region(0, nbytes)
    handle.truncate(0)
    assert asyncio.run(asyncio.wait_for(what_arrives_of(region, network()), 60)) == b""
    assert not caplog.records


class BrokenDisk:
    """A file that cannot be read."""

    def fileno(self) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def pread(self, position: int, size: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("network", [lambda: SocketNetwork(SocketOptions()), StreamNetwork])
@pytest.mark.parametrize("nbytes", [1_000, 100_000])
def test_an_answer_that_cannot_be_read_from_the_disk_is_reported(
    network: Callable[[], Network], nbytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    region = FileRegion(BrokenDisk(), 0, nbytes)
    assert asyncio.run(asyncio.wait_for(what_arrives_of(region, network()), 60)) == b""
    (line,) = caplog.messages
    assert line.endswith("cannot be read from the disk: [Errno 5] Input/output error")


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
