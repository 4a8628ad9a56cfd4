"""A test's broker in a process that forks: its ports, its connections and its locks are its own."""

import multiprocessing
import os
import pickle
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tierlog.testing import Broker, BrokerError
from tierlog.tests.testing.broker_clients import TIMEOUT_S, produce, values
from tierlog.tests.waiting import wait_until

FORK = multiprocessing.get_context("fork")
AT_ONCE_S = 20.0
"""Much less than the minute that is the limit of every act."""


@contextmanager
def forked(work: Callable[[], str] = lambda: "") -> Generator[Connection]:
    """A child that does the work, sends what it returns, and stays until the end."""
    ours, theirs = FORK.Pipe()

    def stay() -> None:
        ours.close()
        theirs.send(work())
        theirs.poll(None)

    child = FORK.Process(target=stay)
    child.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        child.join(TIMEOUT_S)
        assert child.exitcode is not None, "It has not ended."


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("is_process", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_broker_is_restarted_and_killed_while_a_child_lives(is_process: bool) -> None:
    with Broker(process=is_process, tier="memory") as broker:
        broker.create_topic("orders")
        began = time.monotonic()
        with forked():
            # At once: the child may not have had its first turn.
            broker.restart()
            produce(broker, "orders", [(b"k", b"1")])
            broker.kill()
            broker.restart()
            assert values(broker, "orders") == [b"1"]
            port = broker.port
            broker.close()
            assert is_refused(port)
        assert time.monotonic() - began < AT_ONCE_S


def test_a_client_is_cut_off_though_a_child_lives() -> None:
    with Broker() as broker:
        client = socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S)
        idle = broker.port
        with client, forked() as child:
            assert child.recv() == ""
            broker.kill()
            assert client.recv(1) == b""
            assert is_refused(idle)


def test_the_child_of_a_process_that_dies_holds_neither_port_nor_lock(tmp_path: Path) -> None:
    ours, theirs = FORK.Pipe()

    def die_after_a_fork() -> None:
        broker = Broker(directory=str(tmp_path))
        broker.start()
        if os.fork():
            theirs.send(broker.port)
            os._exit(0)
        ours.close()
        theirs.poll(None)
        os._exit(0)

    parent = FORK.Process(target=die_after_a_fork)
    parent.start()
    theirs.close()
    port = int(ours.recv())
    wait_until(lambda: not parent.is_alive(), TIMEOUT_S, "it has not died")
    wait_until(lambda: is_refused(port), TIMEOUT_S, f"{port} is still open")
    with Broker(directory=str(tmp_path)) as broker:
        broker.create_topic("orders")
    ours.close()


def test_a_child_reads_at_once_that_the_broker_is_not_its_own() -> None:
    with Broker() as broker:
        broker.create_topic("orders")

        def use() -> str:
            sentences: list[str] = []
            for act in (broker.restart, broker.start, lambda: broker.records("orders")):
                try:
                    act()
                except BrokerError as error:
                    sentences.append(str(error))
            broker.close()
            sentence, *others = sentences
            assert others == [sentence] * 2
            return sentence

        with forked(use) as child:
            assert child.poll(AT_ONCE_S)
            sentence = child.recv()
        assert f"belongs to process {os.getpid()}" in sentence
        assert f"use {broker.bootstrap_servers}" in sentence
        assert broker.records("orders") == []


def test_a_child_has_a_broker_of_its_own_beside_its_parents() -> None:
    with Broker() as broker:
        broker.create_topic("orders")

        def have_another() -> str:
            with Broker() as own:
                own.create_topic("payments")
                produce(own, "payments", [(b"k", b"v")])
                assert values(own, "payments") == [b"v"]
                return own.bootstrap_servers

        with forked(have_another) as child:
            assert child.poll(TIMEOUT_S)
            assert child.recv() != broker.bootstrap_servers
        assert broker.records("orders") == []


def test_a_broker_is_not_sent_to_another_process() -> None:
    with pytest.raises(TypeError, match="send its bootstrap_servers"):
        pickle.dumps(Broker())
