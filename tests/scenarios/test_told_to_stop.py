"""Ctrl-C and SIGTERM at any moment: no traceback, soon over, and the next start finds all."""

import signal
import socket
from pathlib import Path

import pytest

from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.waiting import wait_until

RECORDS = 20_000


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_start_can_be_interrupted(number: int, tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path) as broker:
        CLIENTS["confluent-kafka"].create_topic(broker.bootstrap, "kept", {})
        sent = produce(broker.bootstrap, "kept", map(value_of, range(RECORDS)), timeout_ms=30_000)
        assert len(sent.acknowledged) == RECORDS
        broker.kill()
    # The lock is taken just before the logs are loaded, and all of this one must be recovered.
    lock = tmp_path / "data" / ".lock"
    lock.unlink()
    interrupted = BrokerProcess.on(tmp_path)
    wait_until(lock.exists, 20, "the broker did not begin to start")
    assert interrupted.stop(number) == 0
    interrupted.close()

    with BrokerProcess.on(tmp_path) as broker:
        assert read(broker.bootstrap, "kept", RECORDS) == sent.acknowledged
        assert broker.stop() == 0
    assert "Traceback" not in broker.log.read_text()


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path) as broker:
        CLIENTS["confluent-kafka"].create_topic(broker.bootstrap, "kept", {})
        sent = produce(broker.bootstrap, "kept", map(value_of, range(1_000)), timeout_ms=30_000)
        broker.process.send_signal(signal.SIGINT)
        wait_until(lambda: "Stopping." in broker.log.read_text(), 20, "it does not stop")
        # It may be over by now; if it is not, it leaves at once.
        assert broker.stop(signal.SIGINT) in (0, 130, -signal.SIGINT)
    with BrokerProcess.on(tmp_path) as broker:
        assert read(broker.bootstrap, "kept", 1_000) == sent.acknowledged
    log_text = broker.log.read_text()
    assert "Traceback" not in log_text
    assert "never awaited" not in log_text


@pytest.mark.slow
def test_a_tier_that_has_fallen_silent_does_not_hold_up_the_end(tmp_path: Path) -> None:
    # It takes connections and never says a word.
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        properties = {
            "rsm.config.url": "s3://bucket/prefix",
            "rsm.config.option.endpoint_url": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "rsm.config.option.key": "key",
            "rsm.config.option.secret": "secret",
            "remote.log.manager.task.interval.ms": "100",
        }
        with BrokerProcess.on(tmp_path, properties) as broker:
            config = {"remote.storage.enable": "true", "segment.bytes": "1048576"}
            CLIENTS["confluent-kafka"].create_topic(broker.bootstrap, "kept", config)
            produce(broker.bootstrap, "kept", map(value_of, range(3_000)), timeout_ms=30_000)
            silent.settimeout(30)
            copying, _ = silent.accept()
            with copying:
                broker.process.send_signal(signal.SIGTERM)
                assert broker.process.wait(20) == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
        assert "Traceback" not in broker.log.read_text()
