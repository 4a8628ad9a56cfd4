"""Kafka Streams, at least once: counts survive the loss of everything that is not in our topics."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KAFKA_VERSION

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .java_member import EXIT_CODE_ON_SIGTERM
from .ran import CLASSIC, record
from .topics import create_topic
from .untyped import librdkafka_admin
from .word_counts import Counts, word_count, write_lines

LINES = 200
TIMEOUT_S = 90


AT_LEAST_ONCE = "at_least_once"


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
