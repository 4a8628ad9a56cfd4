"""A terminal that closes, as when ssh drops: a clean stop; under nohup nothing at all."""

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.tierlog_node import tierlog_command, user_environment
from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.broker_process import TEST_PROPERTIES, BrokerProcess, BrokerThread, RawClient

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hangups_end_processes")]

WITHIN_S = 120.0


class Terminal:
    """A shell's place: a process that has the terminal, as the leader of its session."""

    def __init__(self, directory: Path, words: Sequence[str]) -> None:
        self.pid, self._screen = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            command = tierlog_command(*words)
            os.execve(command[0], command, user_environment())
        self.shown = ""

    def wait_for(self, words: str) -> None:
        """Read the screen until the words are on it."""
        deadline = time.monotonic() + WITHIN_S
        while words not in self.shown:
            readable, _, _ = select.select([self._screen], [], [], deadline - time.monotonic())
            assert readable, self.shown
            # Where the process has ended there is nothing more to read.
            self.shown += os.read(self._screen, 65_536).decode()

    def close(self) -> int:
        """Close the window: the kernel sends SIGHUP, and no line can be written from now on."""
        os.close(self._screen)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def serve(directory: Path) -> list[str]:
    stated = {**TEST_PROPERTIES, "log.dirs": str(directory / "data")}
    return [
        "serve",
        *(word for name in stated for word in ("--override", f"{name}={stated[name]}")),
    ]


def is_clean(log_dir: Path) -> bool:
    return (log_dir / ".kafka_cleanshutdown").exists()


def test_a_broker_whose_terminal_closes_stops_cleanly(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, serve(tmp_path))
    terminal.wait_for(" ready on ")
    assert terminal.close() == 0
    assert is_clean(tmp_path / "data")


def test_a_cluster_whose_terminal_closes_stops_cleanly(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, ["cluster", "up", "--brokers", "2", "--dir", "here"])
    terminal.wait_for(" cluster ready on ")
    assert terminal.close() == 0
    nodes = [each.parent for each in (tmp_path / "here").rglob("meta.properties")]
    assert nodes
    assert all(is_clean(each) for each in nodes)


def test_a_terminal_that_says_twice_that_it_closes_does_not_cut_the_stop_short(
    tmp_path: Path,
) -> None:
    with BrokerProcess.on(tmp_path) as broker:
        for _ in range(50):
            broker.process.send_signal(signal.SIGHUP)
        assert broker.process.wait(WITHIN_S) == 0
    assert is_clean(tmp_path / "data")


def test_under_nohup_a_broker_goes_on(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path, before=["nohup"]) as broker:
        broker.process.send_signal(signal.SIGHUP)
        with RawClient(broker.port):
            pass
        broker.process.send_signal(signal.SIGHUP)
        assert broker.stop() == 0
        assert broker.log.read_text().count("Stopping.") == 1


@contextmanager
def consumer(broker: BrokerThread, *words: str) -> Generator[subprocess.Popen[bytes]]:
    command = tierlog_command("consume", "read", "-b", broker.bootstrap, *words)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=user_environment()) as process:
        yield process


def test_a_consumer_whose_terminal_closes_leaves_its_group(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        send(broker, b"one\ntwo\n")
        with consumer(broker, "-g", "readers") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"one\n"
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGHUP)
            _, err = process.communicate(timeout=WITHIN_S)
            assert (process.returncode, err) == (0, b"")
        listed = answer(broker, "group", "ls")
        assert listed.split("\n")[1].split()[:2] == ["readers", "Empty"], listed


def send(broker: BrokerThread, lines: bytes) -> None:
    answer(broker, "produce", "read", stdin=lines)


def answer(broker: BrokerThread, *words: str, stdin: bytes = b"") -> str:
    return answer_at(broker.bootstrap, *words, stdin=stdin)


def answer_at(bootstrap: str, *words: str, stdin: bytes = b"") -> str:
    command = tierlog_command(*words, "-b", bootstrap)
    done = subprocess.run(
        command, input=stdin, capture_output=True, env=user_environment(), timeout=WITHIN_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_a_broker_whose_ready_line_nobody_reads_serves_all_the_same(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    port = free_port()
    words = ["serve", "--port", str(port), "--data", str(tmp_path / "data")]
    with subprocess.Popen(
        tierlog_command(*words), stdout=write, stderr=subprocess.PIPE, env=user_environment()
    ) as process:
        os.close(write)
        try:
            answer_at(f"127.0.0.1:{port}", "cluster", "wait")
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=WITHIN_S)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert b"Traceback" not in err
