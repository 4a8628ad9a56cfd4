"""Every target is started, asked and ended by the same names."""

import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.admin import create_topic
from tierlog.bench.harness.targets.elsewhere import ElsewhereTarget
from tierlog.bench.harness.targets.named import target_named
from tierlog.bench.harness.targets.node_target import logs_of_topic
from tierlog.bench.harness.targets.target import RunningTarget, TargetUnavailableError
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.tests.scenarios.object_store import BUCKET, KEY, SECRET, ObjectStore
from tierlog.tests.waiting import wait_until

SMALL_SEGMENTS = {"segment.bytes": "1048576"}


def produce(target: RunningTarget, topic: str) -> None:
    """Four megabytes in small batches."""
    failures: list[object] = []
    settings = {"bootstrap.servers": target.bootstrap, "batch.size": 16384, "log_level": 3}
    producer = Producer(settings)
    for _ in range(4_000):
        producer.produce(topic, bytes(1000), on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None] * 4_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["tierlog", "tansu", pytest.param("kafka", marks=pytest.mark.requires("java", "mvn"))],
)
def test_a_target_is_started_asked_and_ended(tmp_path: Path, name: str) -> None:
    target = target_named(name, {})
    target.check()
    assert target.name == name
    assert target.versions()[name]
    tiered = "tier" in target.capabilities
    directory = tmp_path / "broker"
    running = target.prepare(directory, {}, (directory / "remote").as_uri() if tiered else None)
    assert not running.is_alive()
    assert running.start() > 0
    try:
        (pid,) = running.pids()
        assert running.node is not None
        assert running.node.pid == pid
        before = running.usage()
        assert before is not None
        config = running.topic_config(tiered)
        create_topic(running.bootstrap, "asked", {**config, **SMALL_SEGMENTS} if config else {})
        produce(running, "asked")
        after = running.usage()
        assert after is not None
        assert after.cpu_seconds > before.cpu_seconds
        if tiered:
            wait_until(lambda: running.bytes_in_tier("asked") > 2_000_000, 60, running.log_tail)
            assert running.bytes_in_tier("ask") == 0
    finally:
        running.kill()
    assert not running.is_alive()
    assert not running.node.has_died()
    running.discard()
    assert not directory.exists()


@pytest.mark.slow
def test_a_broker_that_runs_elsewhere_is_asked_what_it_can_and_left_running(
    tmp_path: Path,
) -> None:
    with TierlogNode(tmp_path / "theirs") as theirs:
        target = target_named(theirs.bootstrap, {})
        target.check()
        assert target.capabilities == {"durable", "tier"}
        running = target.prepare(tmp_path / "ours", {}, None)
        running.start()
        assert running.is_alive()
        assert running.pids() == ()
        assert running.usage() is None
        create_topic(running.bootstrap, "asked", running.topic_config(True))
        with pytest.raises(MeasurementError, match="not ours to kill"):
            running.kill()
        running.stop()
        running.discard()
        assert theirs.is_alive()


@pytest.mark.slow
def test_a_broker_that_dies_is_distinguished_from_one_that_was_ended(tmp_path: Path) -> None:
    node = TierlogNode(tmp_path)
    assert not node.has_died()
    node.start()
    assert node.is_alive()
    # As the kernel does where memory runs out: nobody of ours has asked for it.
    os.kill(node.pid, signal.SIGKILL)
    wait_until(node.has_died, 30, node.log_tail)
    assert not node.is_alive()
    node.stop()
    assert not node.has_died()


def test_nobody_answers_elsewhere() -> None:
    with pytest.raises(TargetUnavailableError, match=r"No Kafka broker answers at 127\.0\.0\.1:1;"):
        ElsewhereTarget("127.0.0.1:1").check()


def test_a_scenarios_properties_win_over_all_others(tmp_path: Path) -> None:
    target = TierlogTarget({"key": "ours"})
    properties = {"rsm.config.url": "s3://theirs/x", "remote.log.manager.task.interval.ms": "7"}
    running = target.prepare(tmp_path, properties, "s3://ours/y")
    assert running.node is not None
    stated = running.node.properties()
    assert stated["rsm.config.url"] == "s3://theirs/x"
    assert stated["rsm.config.option.key"] == "ours"
    assert stated["remote.log.manager.task.interval.ms"] == "7"


def test_without_a_tier_the_broker_has_none(tmp_path: Path) -> None:
    running = TierlogTarget().prepare(tmp_path, {}, None)
    assert running.node is not None
    assert running.node.properties()["remote.log.storage.system.enable"] == "false"
    assert running.bytes_in_tier("any") == 0


def test_the_segments_of_a_topic_are_distinguished_from_those_of_its_namesakes(
    tmp_path: Path,
) -> None:
    topic_id = "abcdefghijklmnopqrstu-"
    for folder in (f"a-0-{topic_id}", f"a-0-0-{topic_id}", f"aa-0-{topic_id}", f"a-17-{topic_id}"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "00.log").touch()
        (tmp_path / folder / "00.index").touch()
    found = {path.parent.name for path in logs_of_topic(tmp_path, "a")}
    assert found == {f"a-0-{topic_id}", f"a-17-{topic_id}"}


@pytest.mark.slow
def test_what_was_written_into_an_object_store_is_counted_and_removed(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    store.start()
    try:
        options = {"endpoint_url": store.endpoint, "key": KEY, "secret": SECRET}
        target = TierlogTarget(options)
        running = target.prepare(tmp_path / "broker", {}, f"s3://{BUCKET}/bench/001")
        running.start()
        try:
            config = {**running.topic_config(True), **SMALL_SEGMENTS}
            create_topic(running.bootstrap, "asked", config)
            produce(running, "asked")
            wait_until(lambda: running.bytes_in_tier("asked") > 2_000_000, 60, running.log_tail)
        finally:
            running.kill()
        assert store.bucket().find(BUCKET)
        running.discard()
        assert store.bucket().find(BUCKET) == []
    finally:
        store.stop()
