"""`tierlog.testing.Broker` as a process of its own."""

import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

import tierlog
from tierlog.testing import Broker, BrokerError
from tierlog.tests.house_rules import ROOT
from tierlog.tests.testing.broker_clients import TIMEOUT_S, produce, values
from tierlog.tests.waiting import wait_until


@pytest.mark.slow
def test_a_process_is_killed_started_again_and_offloads() -> None:
    with Broker(tier="memory", process=True) as broker:
        directory, address = broker.directory, broker.bootstrap_servers
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"1")])
        broker.kill()
        with pytest.raises(BrokerError, match="does not run"):
            broker.offload("orders")
        broker.restart()
        assert broker.bootstrap_servers == address
        produce(broker, "orders", [(b"k", b"2")])
        broker.offload("orders")
        assert values(broker, "orders") == [b"1", b"2"]
        assert "Copied to remote storage" in broker.log_tail()
        with pytest.raises(BrokerError, match="cleanup"):
            broker.compact("orders")
    assert not os.path.exists(directory)


@pytest.mark.long
def test_a_start_that_is_refused_says_why(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"log\.retention\.hours"):
        Broker({"log.retention.hours": "soon"}, process=True).start()


@pytest.mark.long
def test_the_broker_ends_with_the_process_of_its_test() -> None:
    program = (
        "import os, signal\n"
        "from tierlog.testing import Broker\n"
        "broker = Broker(process=True)\n"
        "broker.start()\n"
        "print(broker.port, broker.directory, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    port, directory = ran.stdout.split()
    wait_until(lambda: not is_listening(int(port)), 60, lambda: f"{port} is still open")
    shutil.rmtree(directory)


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
def test_the_name_of_a_broker_loads_nothing_of_one() -> None:
    program = (
        "import sys, tierlog, tierlog.testing\n"
        "assert tierlog.Broker is tierlog.testing.Broker\n"
        "print([name for name in ('s3fs', 'tierlog.broker.broker') if name in sys.modules])\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
    with pytest.raises(AttributeError, match="no attribute 'Brokers'"):
        getattr(tierlog, "Brokers")  # noqa: B009 (a type checker refuses the plain form)


@pytest.mark.slow
def test_a_process_stops_in_the_middle_of_an_act() -> None:
    with Broker(process=True, tier="memory") as broker, ThreadPoolExecutor(1) as thread:
        broker.create_topic("orders")
        # A transaction that is open holds the copying up.
        producer = Producer(broker.config(transactional_id="shop"))
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("orders", b"v")
        producer.flush(TIMEOUT_S)
        offloading = thread.submit(broker.offload, "orders")
        broker.create_topic("payments")
        broker.kill()
        with pytest.raises(BrokerError, match=r"does not run|has ended"):
            offloading.result(TIMEOUT_S)
        broker.restart()
