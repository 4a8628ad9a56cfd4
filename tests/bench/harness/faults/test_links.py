"""Links recognise who connects, and do to what passes what they are to do."""

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tierlog.bench.harness.faults.links import CLIENTS, Links
from tierlog.bench.harness.requests.probe import free_port


def test_a_cut_link_passes_nothing_on_until_it_is_healed() -> None:
    """This process plays both nodes: the one that connects, and the one that listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        port, proxy = listener.getsockname()[1], free_port()
        with Links(lambda: {1: os.getpid()}) as links:
            links.lead_to(2, proxy, port)
            with socket.create_connection(("127.0.0.1", proxy), 30) as near:
                far, _ = listener.accept()
                with far:
                    far.settimeout(30)
                    near.sendall(b"before")
                    assert far.recv(100) == b"before"
                    links.cut(1, 2)
                    links.cut(1, 3)
                    with socket.create_connection(("127.0.0.1", proxy), 30) as later:
                        near.sendall(b"meanwhile")
                        later.sendall(b"new")
                        far.settimeout(0.2)
                        assert nothing_comes(far)
                        links.heal(1, 2)
                        far.settimeout(30)
                        assert far.recv(100) == b"meanwhile"
                        newer, _ = listener.accept()
                        with newer:
                            newer.settimeout(30)
                            assert newer.recv(100) == b"new"
                            newer.sendall(b"answer")
                            assert later.recv(100) == b"answer"
            assert links.unrecognised == 0


def nothing_comes(connection: socket.socket) -> bool:
    try:
        connection.recv(100)
    except TimeoutError:
        return True
    return False


def test_a_node_that_is_down_ends_the_connection() -> None:
    proxy = free_port()
    with Links(dict) as links:
        links.lead_to(2, proxy, free_port())
        with socket.create_connection(("127.0.0.1", proxy), 30) as near:
            near.settimeout(30)
            assert near.recv(100) == b""
        assert links.unrecognised == 1


class Ends(NamedTuple):
    """A connection of node 1 with node 2, by way of a proxy; this process plays both nodes."""

    links: Links
    near: socket.socket
    far: socket.socket


@contextmanager
def connected(source: int | None = None) -> Generator[Ends]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        port, proxy = listener.getsockname()[1], free_port()
        with Links(lambda: {1: os.getpid()}) as links:
            links.lead_to(2, proxy, port, source)
            with socket.create_connection(("127.0.0.1", proxy), 30) as near:
                far, _ = listener.accept()
                with far:
                    far.settimeout(30)
                    yield Ends(links, near, far)


def test_a_link_that_is_cut_one_way_still_passes_the_other() -> None:
    with connected() as (links, near, far):
        links.cut_one_way(1, 2)
        near.sendall(b"question")
        far.sendall(b"call")
        assert near.recv(100) == b"call"
        far.settimeout(0.2)
        assert nothing_comes(far)
        links.heal(1, 2)
        far.settimeout(30)
        assert far.recv(100) == b"question"


def test_what_is_delayed_comes_later_and_in_order() -> None:
    with connected() as (links, near, far):
        links.delay(1, 2, 0.3)
        began = time.monotonic()
        near.sendall(b"one ")
        assert far.recv(100) == b"one "
        assert time.monotonic() - began >= 0.3
        links.heal(1, 2)
        near.sendall(b"two")
        assert far.recv(100) == b"two"


def test_what_drips_comes_in_pieces_until_the_link_is_healed() -> None:
    with connected() as (links, near, far):
        links.drip(1, 2, 100)
        near.sendall(bytes(1_000_000))
        assert len(far.recv(1_000_000)) == 10
        links.heal(1, 2)
        left = 1_000_000 - 10
        while left:
            left -= len(far.recv(1_000_000))


def test_a_reset_ends_both_sides_and_no_other_link() -> None:
    with connected() as (links, near, far):
        links.reset(1, 3)
        near.sendall(b"still there")
        assert far.recv(100) == b"still there"
        links.reset(2, 1)
        for end in (near, far):
            with pytest.raises(ConnectionResetError):
                end.recv(100)


def test_clients_are_one_end_of_the_link_that_is_theirs() -> None:
    with connected(source=CLIENTS) as (links, near, far):
        links.cut(1, 2)
        near.sendall(b"a client")
        assert far.recv(100) == b"a client"
        links.cut(CLIENTS, 2)
        far.settimeout(0.2)
        near.sendall(b"again")
        assert nothing_comes(far)
        assert links.unrecognised == 0
