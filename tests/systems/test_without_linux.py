"""All of tierlog works where nothing is that Linux alone has (`without_linux/`)."""

import os
import re
import select
import socket
from pathlib import Path

import pytest

from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.house_rules import ROOT
from tierlog.tests.systems.hidden_linux import HIDING, python, tierlog

pytestmark = pytest.mark.slow

STORIES = ROOT / "tests" / "pythons" / "test_story.py"


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


@pytest.mark.timeout(1200)
def test_all_stories_are_the_same_without_what_linux_alone_has(tmp_path: Path) -> None:
    """Both protocols of groups, the tier, a kill, a cluster, TLS with SCRAM, brokers of tests."""
    options = ("-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "stories"))
    output = python("-m", "pytest", *options, str(STORIES), within_s=900)
    assert output.returncode == 0, output.stdout[-4000:]
    assert re.search(r"^\d+ passed in ", output.stdout, re.MULTILINE) is not None, output.stdout


def test_a_key_for_tls_is_on_no_disk_but_where_its_owner_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured, temporary = tmp_path / "dev", tmp_path / "temporary"
    temporary.mkdir()
    port = free_port()
    tierlog("secure", "init", str(secured), "--port", str(port))
    monkeypatch.setenv("PYTHONPATH", str(HIDING))
    monkeypatch.setenv("TMPDIR", str(temporary))
    key = (secured / "broker.pem").read_text().splitlines()[1]
    with BrokerProcess(("--config", str(secured / "server.properties")), tmp_path):
        at = ("-b", f"localhost:{port}", "--command-config", str(secured / "client.properties"))
        tierlog("topic", "create", "secrets", *at)
        assert list(temporary.iterdir()) == []
        files = (Path(folder, name) for folder, _, names in os.walk(tmp_path) for name in names)
        holders = [each.name for each in files if key.encode() in each.read_bytes()]
        assert holders == ["broker.pem"]
