"""Who started the process learns when clients can connect, and that it is about to stop."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierlog.cli.readiness import READY, STOPPING, notify
from tierlog.tests.house_rules import ROOT

_WITHIN_S = 60.0


@contextmanager
def _manager(address: str) -> Generator[socket.socket]:
    """A service manager that is notified at the address."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(_WITHIN_S)
        yield manager


def test_a_state_is_one_datagram(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with _manager(path) as manager:
        notify(READY, {"NOTIFY_SOCKET": path})
        assert manager.recv(100) == READY


def test_a_name_that_begins_with_an_at_sign_is_abstract() -> None:
    name = f"tierlog-test-{os.getpid()}"
    with _manager(f"\0{name}") as manager:
        notify(STOPPING, {"NOTIFY_SOCKET": f"@{name}"})
        assert manager.recv(100) == STOPPING


def test_no_manager_is_no_trouble_and_a_missing_one_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notify(READY, {})
    assert caplog.messages == []
    notify(READY, {"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    notify(READY, {"NOTIFY_SOCKET": "x" * 200})
    assert [each.split(" was ")[1].split(":")[0] for each in caplog.messages] == [
        "not notified"
    ] * 2


@pytest.mark.slow
def test_a_broker_is_ready_after_its_own_line_and_stopping_on_sigterm(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    serve = ("serve", "--announce=It is up", f"--override=log.dirs={tmp_path / 'data'}")
    with _manager(path) as manager:
        broker = subprocess.Popen(
            [
                *(sys.executable, "-m", "tierlog.cli", *serve),
                "--override=listeners=PLAINTEXT://127.0.0.1:0",
            ],
            cwd=ROOT,
            env={**os.environ, "NOTIFY_SOCKET": path},
            stdout=subprocess.PIPE,
        )
        try:
            assert broker.stdout is not None
            assert manager.recv(100) == READY
            assert select.select([broker.stdout], [], [], 0)[0]
            lines = [broker.stdout.readline().decode() for _ in range(2)]
            assert "ready on 127.0.0.1:" in lines[0]
            assert lines[1] == "It is up\n"
            broker.send_signal(signal.SIGTERM)
            assert manager.recv(100) == STOPPING
            assert broker.wait(_WITHIN_S) == 0
        finally:
            broker.kill()
            broker.communicate()
