"""What only a process of its own shows: its imports, its pipes, its signals."""

import os
import signal
import subprocess
import sys

import pytest

from tierlog.testing import Broker
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.cli.client.command_run import Tierlog
from tierlog.tests.house_rules import ROOT

pytestmark = pytest.mark.slow

_WITHIN_S = 120
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / ".namespace")}
_NOT_FOR_A_LISTING = {
    *("rich", "s3fs", "fsspec", "crc32c", "cramjam", "msgpack"),
    *("tomllib", "tierlog.tiering", "tierlog.replication", "tierlog.broker.config"),
    *("tierlog.clients.consumer", "tierlog.clients.producer", "tierlog.clients.record"),
}


def start(
    broker: BrokerThread, *words: str, flags: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    command = _command(broker, *words, flags=flags)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=_ENVIRONMENT)


def _command(broker: BrokerThread, *words: str, flags: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, *flags, "-m", "tierlog.cli", *words, "-b", broker.bootstrap]


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


def test_a_topic_that_is_deleted_while_it_is_read_is_an_end(
    broker: BrokerThread, tierlog: Tierlog
) -> None:
    """Also where another topic has its name by then."""
    tierlog.done("topic", "create", "leaving")
    tierlog.done("produce", "leaving", stdin=(b"x" * 1000 + b"\n") * 6_000)
    with start(broker, "consume", "leaving", "-e") as process:
        assert process.stdout is not None
        process.stdout.read(1000)
        tierlog.done("topic", "delete", "leaving")
        tierlog.done("topic", "create", "leaving")
        _, err = process.communicate(timeout=_WITHIN_S)
    tierlog("topic", "delete", "leaving")
    assert process.returncode == 1
    assert err == b"tierlog: The topic leaving was deleted while it was read.\n"


def test_ctrl_c_does_not_wait_for_a_broker_that_hangs() -> None:
    with Broker() as broker, broker.faults.silence("Produce") as fault:
        broker.create_topic("hung")
        command = [sys.executable, "-m", "tierlog.cli", "produce", "hung"]
        address = ["-b", broker.bootstrap_servers]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [*command, *address], stdin=pipe, stdout=pipe, stderr=pipe, env=_ENVIRONMENT
        ) as process:
            assert process.stdin is not None
            process.stdin.write(b"line\n")
            process.stdin.flush()
            fault.wait(timeout_s=_WITHIN_S)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
    said = b"tierlog: 1 record was not acknowledged before the interruption.\n"
    assert (process.returncode, err) == (130, said)


def test_an_output_that_cannot_be_written_is_one_sentence(broker: BrokerThread) -> None:
    for words in (("topic", "ls", "--json"), ("cluster", "ping")):
        command = _command(broker, *words)
        with open("/dev/full", "wb") as full:
            process = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, env=_ENVIRONMENT, timeout=_WITHIN_S
            )
        said = b"tierlog: The output cannot be written: No space left on device.\n"
        assert (process.returncode, process.stderr) == (1, said)


@pytest.mark.parametrize(("words", "closed"), [(("topic", "ls"), ">&-"), (("produce", "t"), "<&-")])
def test_a_closed_stream_is_one_sentence(
    broker: BrokerThread, words: tuple[str, ...], closed: str
) -> None:
    process = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *_command(broker, *words)],
        capture_output=True,
        env=_ENVIRONMENT,
        timeout=_WITHIN_S,
    )
    assert process.returncode == 2
    assert b" is closed: " in process.stderr
    assert process.stderr.count(b"\n") == 1


def test_ctrl_c_ends_what_has_no_end(broker: BrokerThread, tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "followed")
    tierlog.done("produce", "followed", stdin=b"one\n")
    with start(broker, "consume", "followed") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=_WITHIN_S)
    assert (process.returncode, out, err) == (0, b"", b"")
