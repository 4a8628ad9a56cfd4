"""All of tierlog works where nothing is that Linux alone has (`without_linux/`)."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.bench.probe import free_port
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.systems.hidden_linux import PYTHONPATH, WITHIN_S, environment, python, tierlog
from tierlog.tests.waiting import wait_until

pytestmark = pytest.mark.slow

_BEFORE = ("env", f"PYTHONPATH={PYTHONPATH}")
TIERED = ("remote.storage.enable=true", "segment.bytes=1048576", "local.retention.bytes=1048576")
SOON = {
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}
RECORDS = "".join(f"{number} {'x' * 500}\n" for number in range(8_000))


def test_what_is_hidden_is_gone() -> None:
    program = (
        "import ctypes, os, select, selectors, socket, errno\n"
        "gone = [os, 'memfd_create', os, 'posix_fallocate', os, 'fdatasync', select, 'epoll',"
        " socket, 'MSG_MORE', socket, 'TCP_CONGESTION', errno, 'EREMOTEIO',"
        " ctypes.CDLL(None), 'prctl']\n"
        "print([n for m, n in zip(gone[::2], gone[1::2]) if hasattr(m, n)])\n"
        "print([p for p in ('/proc/self', '/dev/shm', '/proc/stat') if os.path.exists(p)])\n"
        "print(selectors.DefaultSelector.__name__)\n"
        "open('/proc/self/status')\n"
    )
    said = python("-c", program).stdout.splitlines()
    assert said[:3] == ["[]", "[]", "PollSelector"]
    assert "FileNotFoundError" in said[-1]
    assert hasattr(select, "epoll")
    assert hasattr(socket, "MSG_MORE")


def test_a_broker_keeps_what_it_has_through_a_kill_and_copies_it_to_its_tier(
    tmp_path: Path,
) -> None:
    properties = SOON | {"rsm.config.url": f"file://{tmp_path}/remote"}
    with BrokerProcess.on(tmp_path, properties, _BEFORE) as first:
        at = ("-b", first.bootstrap)
        settings = [word for each in TIERED for word in ("-c", each)]
        tierlog("topic", "create", "history", *settings, *at)
        tierlog("produce", "history", *at, stdin=RECORDS)
        assert tierlog("consume", "history", "-n", "8000", *at) == RECORDS
        first.stop(signal.SIGKILL)
    with BrokerProcess.on(tmp_path, properties, _BEFORE) as second:
        at = ("-b", second.bootstrap)

        def storage() -> str:
            return tierlog("topic", "storage", "history", *at)

        wait_until(lambda: "with records in a remote tier" in storage(), WITHIN_S, storage)
        assert tierlog("consume", "history", "-n", "8000", *at) == RECORDS
        assert second.stop() == 0
        assert "Traceback" not in second.log.read_text()


def test_a_secured_broker_reads_its_key_without_leaving_it_on_the_disk(tmp_path: Path) -> None:
    secured, temporary = tmp_path / "dev", tmp_path / "temporary"
    temporary.mkdir()
    port = free_port()
    tierlog("secure", "init", str(secured), "--port", str(port))
    begin = ("env", f"PYTHONPATH={PYTHONPATH}", f"TMPDIR={temporary}")
    configuration = ("--config", str(secured / "server.properties"))
    with BrokerProcess(configuration, tmp_path, begin):
        at = ("-b", f"localhost:{port}", "--command-config", str(secured / "client.properties"))
        tierlog("topic", "create", "secrets", *at)
        tierlog("produce", "secrets", *at, stdin="of ours\n")
        assert tierlog("consume", "secrets", "-n", "1", *at) == "of ours\n"
        assert list(temporary.iterdir()) == []


def test_a_cluster_of_three_is_up_and_goes_with_its_command(tmp_path: Path) -> None:
    words = ("cluster", "up", "--dir", str(tmp_path / "cluster"))
    cluster = subprocess.Popen(
        [sys.executable, "-m", "tierlog.broker", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    try:
        assert cluster.stdout is not None
        lines = [line := cluster.stdout.readline()]
        while line and " cluster ready on " not in line:
            lines.append(line := cluster.stdout.readline())
        ready = re.search(r"cluster ready on (\S+) in", line)
        assert ready is not None, "".join(lines)
        tierlog("topic", "create", "three", "-b", ready[1])
        tierlog("produce", "three", "-b", ready[1], stdin="copies\n")
        assert tierlog("consume", "three", "-n", "1", "-b", ready[1]) == "copies\n"
        cluster.send_signal(signal.SIGINT)
        output, _ = cluster.communicate(timeout=WITHIN_S)
        assert cluster.returncode == 0, output
    finally:
        if cluster.poll() is None:
            os.killpg(cluster.pid, signal.SIGKILL)
            cluster.communicate()


@pytest.mark.parametrize("word", ["thread", "process"])
def test_the_brokers_of_tests_come_up(word: str) -> None:
    program = (
        "from tierlog.testing import Broker\n"
        f"with Broker(process={word == 'process'}) as broker:\n"
        "    broker.create_topic('t')\n"
        "    print(broker.bootstrap_servers, broker.directory)\n"
    )
    done = python("-c", program)
    assert done.returncode == 0, done.stdout
    assert "/dev/shm" not in done.stdout
