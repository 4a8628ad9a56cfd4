"""Ports that a cluster holds: nobody else chooses them, and its nodes can listen there."""

import socket
from random import Random

import pytest

from tierlog.storage.files import OsFiles
from tierlog.testing.local_cluster.held_ports import HeldPorts, NoPortError


def listener(port: int) -> socket.socket:
    """A socket as a node's."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen()
    return listening


def test_a_node_listens_at_a_port_that_is_held_again_and_again() -> None:
    ports = HeldPorts(Random(1), OsFiles())
    port = ports.hold_new(())
    for _ in range(2):
        with listener(port) as listening, socket.create_connection(("127.0.0.1", port)):
            # Closed first by the server, so that its side lingers.
            listening.accept()[0].close()
    ports.close()


def test_two_clusters_that_draw_the_same_numbers_have_different_ports() -> None:
    first, second = (HeldPorts(Random(2), OsFiles()) for _ in range(2))
    mine = {first.hold_new(()) for _ in range(20)}
    others = {second.hold_new(()) for _ in range(20)}
    assert len(mine) == len(others) == 20
    assert not mine & others
    first.close()
    second.close()


def test_a_port_of_an_earlier_start_is_held_unless_somebody_listens_there() -> None:
    ports = HeldPorts(Random(3), OsFiles())
    port = ports.hold_new(())
    ports.release(port)
    with listener(port):
        assert not ports.hold(port)
    assert ports.hold(port)
    assert ports.hold(port)
    with listener(port):
        pass
    ports.close()


def test_no_port_is_a_sentence() -> None:
    ports = HeldPorts(Random(4), OsFiles())
    with pytest.raises(NoPortError, match=r"No free port was met from 10000 to \d+"):
        ports.hold_new(range(65536))
