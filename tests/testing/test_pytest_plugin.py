"""The pytest plugin, in a project that has nothing but a file of tests."""

import re
from pathlib import Path

import pytest

from tierlog.testing import Broker
from tierlog.tests.testing.plugin_runs import run

PROJECT = """
import os
import pytest
from confluent_kafka import Consumer, Producer

SEEN = "{seen}"

def note(word):
    with open(SEEN, "a") as lines:
        lines.write(word + "\\n")

def test_fault(tierlog_broker):
    tierlog_broker.faults.fail("Produce", "MESSAGE_TOO_LARGE")  # ends with this test

@pytest.mark.parametrize("number", range({tests}))
def test_round_trip(tierlog_broker, tierlog_topic, tierlog_group, number):
    note(f"{{tierlog_broker.bootstrap_servers}} {{tierlog_topic}}")
    producer = Producer(tierlog_broker.config(linger_ms=0))
    producer.produce(tierlog_topic, b"%d" % number)
    assert producer.flush(60) == 0
    assert [record.value for record in tierlog_broker.records(tierlog_topic)] == [b"%d" % number]

@pytest.mark.tierlog_topic(partitions=3)
def test_partitions(tierlog_broker, tierlog_topic):
    producer = Producer(tierlog_broker.config())
    for partition in range(3):
        producer.produce(tierlog_topic, b"v", partition=partition)
    assert producer.flush(60) == 0
    assert [each.partition for each in tierlog_broker.records(tierlog_topic)] == [0, 1, 2]

def test_tier(tierlog_broker, tierlog_topic):
    tierlog_broker.offload(tierlog_topic)
"""


def write_project(directory: Path, tests: int) -> Path:
    """A file of tests; returns the file in which they note their broker and topic."""
    seen = directory / "seen"
    text = PROJECT.format(seen=seen, tests=tests)
    (directory / "test_orders.py").write_text(text)
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return seen


@pytest.mark.slow
def test_each_worker_has_its_broker_and_each_test_its_topic(tmp_path: Path) -> None:
    seen = write_project(tmp_path, tests=6)
    ran = run(tmp_path, "-n", "2")
    assert "9 passed" in ran.stdout, ran.stdout
    notes = [line.split() for line in seen.read_text().splitlines()]
    assert len({broker for broker, _ in notes}) == 2
    topics = {topic for _, topic in notes}
    assert len(topics) == 6
    assert all(re.fullmatch(r"test-round-trip-\d-[0-9a-f]{16}", topic) for topic in topics)


@pytest.mark.slow
def test_the_same_tests_run_against_a_kafka_that_is_named(tmp_path: Path) -> None:
    seen = write_project(tmp_path, tests=2)
    with Broker() as broker:
        ran = run(tmp_path, "-rs", address=broker.bootstrap_servers)
        assert "3 passed, 2 skipped" in ran.stdout, ran.stdout
        for name in ("offload", "faults"):
            assert f"Broker.{name} needs a broker that the test has started" in ran.stdout
        notes = [line.split() for line in seen.read_text().splitlines()]
        assert {address for address, _ in notes} == {broker.bootstrap_servers}
        ran = run(tmp_path, "-k", "partitions", "--kafka-bootstrap", broker.bootstrap_servers)
        assert "1 passed" in ran.stdout, ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "heading"),
    [
        pytest.param((), "tierlog broker log", id="thread"),
        pytest.param(
            ("--tierlog-process",), "tierlog broker log", id="process", marks=pytest.mark.long
        ),
    ],
)
def test_a_failing_test_shows_the_log_of_the_broker(
    tmp_path: Path, options: tuple[str, ...], heading: str
) -> None:
    (tmp_path / "test_it.py").write_text(
        "def test_it(tierlog_broker):\n"
        "    tierlog_broker.create_topic('failing')\n"
        "    assert tierlog_broker.records('failing') == ['none']\n"
    )
    ran = run(tmp_path, *options)
    assert "1 failed" in ran.stdout, ran.stdout
    section = ran.stdout.partition(heading)[2]
    assert "failing-0" in section, ran.stdout


def test_pytest_does_not_rewrite_what_the_plugin_stands_on() -> None:
    from tierlog.storage.log import unified_log

    # The name by which a rewritten module knows pytest.
    assert "@pytest_ar" not in vars(unified_log)
    assert "@pytest_ar" in globals()


MANY = """
import pytest

@pytest.mark.parametrize("number", range(100))
def test_it(tierlog_broker, tierlog_topic, number):
    pass
"""


@pytest.mark.slow
def test_an_address_where_nothing_answers_is_asked_once(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(MANY)
    with Broker() as broker:
        address = broker.bootstrap_servers
    # Where CI is set, pytest's summary at the end has the whole of each message once more.
    ran = run(tmp_path, "-rN", address=address)
    assert "100 errors" in ran.stdout, ran.stdout
    sentence = (
        f"Cannot connect to {address}: Connection refused. Check host and port, that the broker "
        "runs, and that its `listeners` has a PLAINTEXT listener there. KAFKA_BOOTSTRAP_SERVERS "
        "names this address: without it, the tests have a broker of tierlog's."
    )
    assert ran.stdout.count(sentence) == 100, ran.stdout


@pytest.mark.slow
def test_the_header_says_whose_topics_are_created(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(tierlog_topic): pass\n")
    with Broker() as broker:
        address = broker.bootstrap_servers
        named = run(tmp_path, "-v", address=address)
        stated = run(tmp_path, "-v", "--kafka-bootstrap", address)
    sentence = f"tierlog: tests use the Kafka at {address} (%s), and create and delete topics"
    assert sentence % "KAFKA_BOOTSTRAP_SERVERS" in named.stdout, named.stdout
    assert sentence % "--kafka-bootstrap" in stated.stdout, stated.stdout
    assert "tierlog: tests use" not in run(tmp_path, "-v").stdout
