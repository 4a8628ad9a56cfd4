"""The operating system refuses to take more: it is said in plain words, and nothing is lost.

A limit on the size of files stands in for the full disk: a test may set it on a running process,
and to the broker both are an error of the same calls.
"""

import resource
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.waiting import wait_until

TOPIC = "filling"
WITHIN_S = 120.0
LIMIT_BYTES = 4 * 1024 * 1024
# Indexes are made at their full size, and must stay far from the limit.
PROPERTIES = {"log.index.size.max.bytes": "65536"}


@pytest.mark.slow
def test_a_full_disk_ends_the_broker_with_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        CLIENTS["confluent-kafka"].create_topic(broker.bootstrap, TOPIC, {})
        resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
        sent = produce(broker.bootstrap, TOPIC, map(value_of, range(2 * LIMIT_BYTES // 1024)))
        assert sent.refused
        assert len(sent.acknowledged) > LIMIT_BYTES // 2048
        wait_until(lambda: broker.process.poll() is not None, WITHIN_S, "the broker goes on")
        assert broker.process.returncode == 1
        log_text = broker.log.read_text()
    assert "is offline: File too large: raise the limit on file sizes of this process" in log_text
    assert (
        log_text.splitlines()[-1]
        == f"tierlog: All log directories have failed: {tmp_path / 'data'}."
    )
    assert "Traceback" not in log_text

    # Somebody has made room.
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        found = dict(read(broker.bootstrap, TOPIC, len(sent.acknowledged)))
        assert len(produce(broker.bootstrap, TOPIC, [b"there is room again"]).acknowledged) == 1
        assert broker.stop() == 0
    assert all(found.get(offset) == value for offset, value in sent.acknowledged)
    assert "Traceback" not in broker.log.read_text()


@pytest.mark.slow
def test_a_broker_that_may_open_no_more_files_says_which_limit_to_raise(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        CLIENTS["confluent-kafka"].create_topic(broker.bootstrap, TOPIC, {})
        (sent,) = produce(broker.bootstrap, TOPIC, [b"before"]).acknowledged
        pid = broker.process.pid
        # Connected before: the last descriptors are not given to new clients.
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(TOPIC, b"connected")
        assert producer.flush(WITHIN_S) == 0
        limit = len(list(Path(f"/proc/{pid}/fd").iterdir())) + 10
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        # Files that nobody uses now are closed to open others.
        errors: list[KafkaError | None] = []
        for number in range(2 * limit):
            producer.produce(
                f"{TOPIC}-{number}",
                b"one more log",
                on_delivery=lambda error, _: errors.append(error),
            )
            assert producer.flush(WITHIN_S) == 0
        assert errors == [None] * (2 * limit)
        # Not even the file of the controller's decisions can be opened now.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (5, 5))
        producer.produce(f"{TOPIC}-last", b"needs a topic")
        producer.poll(0)
        wait_until(lambda: broker.process.poll() is not None, WITHIN_S, "the broker goes on")
        assert broker.process.returncode == 1
        log_text = broker.log.read_text()
    assert log_text.splitlines()[-1].startswith(
        "tierlog: The controller failed and makes no more changes: "
    )
    assert "Too many open files in " in log_text
    assert "raise the limit on open files of this process (ulimit -n)" in log_text
    assert "Traceback" not in log_text

    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        assert read(broker.bootstrap, TOPIC, 1) == [sent]
        assert broker.stop() == 0
