"""What only a process of its own shows: its imports, its pipes, its signals."""

import os
import signal
import subprocess
import sys

import pytest

from tierlog.tests.broker.commands.client.command_run import Tierlog
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.house_rules import ROOT

pytestmark = pytest.mark.slow

_WITHIN_S = 120
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / ".namespace")}
_NOT_FOR_A_LISTING = {
    *("rich", "s3fs", "fsspec", "crc32c", "cramjam", "msgpack", "sortedcontainers", "re2"),
    *("tomllib", "tierlog.tiering", "tierlog.replication", "tierlog.broker.config"),
    *("tierlog.clients.consumer", "tierlog.clients.producer", "tierlog.clients.record"),
}


def start(
    broker: BrokerThread, *words: str, flags: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    command = [sys.executable, *flags, "-m", "tierlog.broker", *words, "-b", broker.bootstrap]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=_ENVIRONMENT)


def test_a_listing_imports_nothing_that_it_does_not_need(broker: BrokerThread) -> None:
    with start(broker, "topic", "ls", flags=("-X", "importtime")) as process:
        out, err = process.communicate(timeout=_WITHIN_S)
    assert process.returncode == 0
    assert b"\x1b" not in out
    imported = {line.rpartition("|")[2].strip() for line in err.decode().splitlines()}
    assert "tierlog.clients.admin" in imported
    assert not imported & _NOT_FOR_A_LISTING


def test_a_line_is_sent_while_the_next_one_is_not_written_yet(
    broker: BrokerThread, tierlog: Tierlog
) -> None:
    tierlog.done("topic", "create", "typed")
    with start(broker, "produce", "typed") as process:
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        assert tierlog.done("consume", "typed", "-n", "1").text == "first\n"
        process.stdin.write(b"last")
        _, err = process.communicate(timeout=_WITHIN_S)
    assert (process.returncode, err) == (0, b"")
    assert tierlog.done("consume", "typed", "-e").text == "first\nlast\n"


def test_ctrl_c_ends_what_has_no_end(broker: BrokerThread, tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "followed")
    tierlog.done("produce", "followed", stdin=b"one\n")
    with start(broker, "consume", "followed") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=_WITHIN_S)
    assert (process.returncode, out, err) == (0, b"", b"")
