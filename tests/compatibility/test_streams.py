"""Kafka Streams, at least once: counts survive the loss of everything that is not in our topics."""

import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest

from tierlog.bench.kafka_peer import KAFKA_VERSION

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .foreign_members import ready
from .java_member import EXIT_CODE_ON_SIGTERM, FLAGS
from .ran import CLASSIC, record
from .topics import create_topic
from .untyped import librdkafka_admin

WORDS = [f"word{number}" for number in range(50)]
LINES = 200
TIMEOUT_S = 90


AT_LEAST_ONCE = "at_least_once"


def word_count(bootstrap: str, directory: Path, guarantee: str) -> list[str]:
    fetch = f"mvn -q -B -Dkafka.version={KAFKA_VERSION} dependency:copy-dependencies"
    make = f"{fetch} -DoutputDirectory=jars && javac -cp 'jars/*' WordCount.java"
    folder = ready("streams", ("sh", "-c", make))
    return [
        *("java", *FLAGS, "-cp", f"{folder}:{folder / 'jars'}/*"),
        *("WordCount", bootstrap, str(directory), guarantee),
    ]


@contextmanager
def counting(bootstrap: str, directory: Path) -> Generator[None, None, None]:
    """The application runs, and ends in an orderly way."""
    directory.mkdir()
    with (directory / "words.log").open("wb") as log:
        process = subprocess.Popen(word_count(bootstrap, directory, AT_LEAST_ONCE), stderr=log)
    try:
        yield
    except BaseException as error:
        error.add_note((directory / "words.log").read_text()[-5000:])
        process.kill()
        raise
    else:
        process.terminate()
    finally:
        code = process.wait(TIMEOUT_S)
    assert code == EXIT_CODE_ON_SIGTERM


def write_lines(bootstrap: str, first: int, last: int) -> Counter[str]:
    """Lines of three words each; how often each word is in them."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    written = Counter[str]()
    for number in range(first, last):
        words = [WORDS[number * step % len(WORDS)] for step in (1, 3, 7)]
        written.update(words)
        producer.produce("lines", " ".join(words))
    assert producer.flush(60) == 0
    return written


class Counts:
    """The latest count of each word in the topic of counts."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
        )
        parts = [confluent_kafka.TopicPartition("counts", part, 0) for part in range(3)]
        self._consumer.assign(parts)
        self.latest = Counter[str]()

    def become(self, expected: Counter[str]) -> bool:
        for message in self._consumer.consume(1000, timeout=0.2):
            assert message.error() is None, message.error()
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            self.latest[key.decode()] = int(value)
        return self.latest == expected

    def describe(self) -> str:
        return f"{self.latest.total()} words are counted"

    def close(self) -> None:
        self._consumer.close()


def cleanup_policy(bootstrap: str, topic: str) -> str:
    admin = librdkafka_admin.AdminClient({"bootstrap.servers": bootstrap})
    asked = librdkafka_admin.ConfigResource("topic", topic)
    (answer,) = admin.describe_configs([asked]).values()
    return answer.result(30)["cleanup.policy"].value


@pytest.mark.requires("java", "mvn")
def test_words_are_counted_on_from_the_changelog(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    bootstrap = shared_broker.bootstrap
    for topic in ("lines", "counts"):
        create_topic(bootstrap, topic, 3)
    counts = Counts(bootstrap)
    expected = write_lines(bootstrap, 0, LINES)
    for run in ("first", "second"):
        with counting(bootstrap, tmp_path / run):
            wait_until(partial(counts.become, expected.copy()), TIMEOUT_S, counts.describe)
        # The next one has a new directory: all that it knows comes from the changelog.
        expected += write_lines(bootstrap, LINES, LINES + 50)
    counts.close()
    assert cleanup_policy(bootstrap, "words-store-changelog") == "compact"
    assert cleanup_policy(bootstrap, "words-store-repartition") == "delete"
    record("Kafka Streams", KAFKA_VERSION, protocol=CLASSIC, did="stream")
