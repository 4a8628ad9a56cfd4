"""A test's broker that cannot go on says so at once, and runs again where that is possible."""

import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tierlog.storage.system_calls import system
from tierlog.testing import Broker, BrokerError
from tierlog.tests.testing.broker_clients import produce, values
from tierlog.tests.testing.plugin_runs import run

SUITE = """
import pytest
from confluent_kafka import Producer
from tierlog.storage.system_calls import system

def put(broker, topic):
    producer = Producer(broker.config())
    producer.produce(topic, b"one pear")
    assert producer.flush(60) == 0

@pytest.fixture(scope="session")
def of_the_session(tierlog_broker):
    tierlog_broker.create_topic("of-the-session")
    put(tierlog_broker, "of-the-session")
    return "of-the-session"

def test_1_before(tierlog_broker, tierlog_topic, of_the_session):
    put(tierlog_broker, tierlog_topic)

def test_2_breaks_it(tierlog_broker, tierlog_topic, monkeypatch):
    {breaks}

@pytest.mark.parametrize("number", range(20))
def test_3_after(tierlog_broker, tierlog_topic, of_the_session, number):
    put(tierlog_broker, tierlog_topic)
    assert len(tierlog_broker.records(tierlog_topic)) == 1
    {after}
"""
DISK = """
    def fail(*_):
        raise OSError("mocked")

    with monkeypatch.context() as patch:
        patch.setattr(system, "pwrite", fail)
        with pytest.raises(Exception, match="failed"):
            tierlog_broker.create_topic("never")
"""
THREAD = """
    def fail(*_):
        raise OSError("mocked")

    with monkeypatch.context() as patch:
        patch.setattr("selectors.EpollSelector.select", fail)
        with pytest.raises(Exception, match="has ended"):
            tierlog_broker.create_topic("never")
"""


def test_a_call_that_waits_hears_that_the_disk_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "mocked")

    with Broker() as broker:
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"v")])
        with monkeypatch.context() as patch:
            patch.setattr(system, "pwrite", fail)
            with pytest.raises(BrokerError, match="log director"):
                broker.create_topic("never")
        assert "log director" in broker.failure
        with pytest.raises(BrokerError, match="log director"):
            broker.records("orders")
        broker.restart()
        assert broker.failure == ""
        assert values(broker, "orders") == [b"v"]


def test_a_call_hears_that_the_process_has_ended() -> None:
    with Broker(process=True) as broker:
        broker.create_topic("orders")
        listed = subprocess.run(
            ["pgrep", "-P", str(os.getpid()), "-f", "host_process"],
            capture_output=True,
            text=True,
            check=True,
        )
        for pid in listed.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        with pytest.raises(BrokerError, match="process has ended"):
            while True:
                broker.records("orders")
        broker.restart()
        assert broker.records("orders") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("breaks", "after", "said"),
    [
        (DISK, 'assert len(tierlog_broker.records("of-the-session")) == 1', "with its topics"),
        (THREAD, "pass", "without the topics of this one"),
    ],
    ids=["disk", "thread"],
)
def test_the_tests_after_it_have_a_broker(
    tmp_path: Path, breaks: str, after: str, said: str
) -> None:
    suite = SUITE.replace("{breaks}", breaks.strip()).replace("{after}", after)
    (tmp_path / "test_it.py").write_text(suite)
    ran = run(tmp_path)
    assert "22 passed" in ran.stdout, ran.stdout
    assert said in ran.stdout, ran.stdout
    assert "run pytest with --tierlog-process" in ran.stdout, ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accepted", "counts"),
    [("", "22 passed, 1 error"), ("ignore::tierlog.testing.BrokerWarning", "22 passed")],
    ids=["refused", "accepted"],
)
def test_where_warnings_are_errors_only_the_test_that_broke_it_has_one(
    tmp_path: Path, accepted: str, counts: str
) -> None:
    suite = SUITE.replace("{breaks}", DISK.strip()).replace("{after}", "pass")
    (tmp_path / "test_it.py").write_text(suite)
    filters = f"filterwarnings =\n    error\n    {accepted}\n"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{filters}")
    ran = run(tmp_path)
    assert f"\n{counts} in " in ran.stdout, ran.stdout
    assert ("ERROR test_it.py::test_2_breaks_it" in ran.stdout) == (not accepted), ran.stdout
