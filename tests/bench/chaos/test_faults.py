"""Faults are drawn from a seed, links recognise who connects, and a way back into sync is timed."""

import os
import random
import socket
from itertools import islice

from tierlog.bench.chaos.durability import back_in_sync_at
from tierlog.bench.chaos.faults import Fault, FaultKind, Planned, plan
from tierlog.bench.chaos.in_sync import InSync
from tierlog.bench.chaos.links import Links
from tierlog.bench.probe import free_port


def drawn(seed: str, faults: int = 50) -> list[Planned]:
    return list(islice(plan(random.Random(seed), longest_s=7.0), faults))


def test_a_seed_draws_the_same_faults_and_every_kind_first() -> None:
    assert drawn("a") == drawn("a") != drawn("b")
    assert {each.kind for each in drawn("a", len(FaultKind))} == set(FaultKind)
    assert all(0 <= each.lasts_s <= 7.0 for each in drawn("a"))


def seen(at: float, *nodes: int) -> InSync:
    return InSync(at, frozenset(nodes))


def test_a_node_is_back_when_it_has_left_and_is_in_every_isr_after_its_return() -> None:
    fault = Fault(FaultKind.KILL, (2,), began=10.0, returned=12.0)
    history = [seen(9, 1, 2, 3), seen(10.5, 1, 2, 3), seen(11, 1, 3), seen(13, 1, 3)]
    assert back_in_sync_at(fault, history) is None
    assert back_in_sync_at(fault, [*history, seen(15, 1, 2, 3)]) == 15
    assert back_in_sync_at(fault, [seen(11, 1, 2, 3), seen(13, 1, 2, 3)]) is None


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
