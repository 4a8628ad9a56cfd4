"""Kafka Streams, exactly once: killed again and again, its counts are exact.

Each run begins with nothing but what is in our topics, and ends with SIGKILL at a random moment. A
record that was counted twice, or a count that was lost with its transaction, would show at the end.
"""

import random
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .exactly_once_clients import let_run
from .topics import create_topic
from .word_counts import Counts, word_count, write_lines

KILLS = 10
LINES_A_RUN = 100
TIMEOUT_S = 120


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {
        "transaction.state.log.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    with BrokerProcess.on(tmp_path, settings) as process:
        yield process
        assert "Traceback" not in process.log.read_text()


@contextmanager
def counting(bootstrap: str, directory: Path) -> Generator["subprocess.Popen[bytes]"]:
    """The application runs, and is killed at the end."""
    directory.mkdir()
    path = directory / "words.log"
    with path.open("wb") as log:
        command = word_count(bootstrap, directory, "exactly_once_v2")
        process = subprocess.Popen(command, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.requires("java", "mvn")
def test_counts_are_exact_however_often_the_application_is_killed(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    chance = random.Random("streams")
    for topic in ("lines", "counts"):
        create_topic(broker.bootstrap, topic, 3)
    counts = Counts(broker.bootstrap)
    expected = write_lines(broker.bootstrap, 0, LINES_A_RUN)

    def has_moved(known: int) -> bool:
        return counts.become(expected) or counts.latest.total() > known

    for run in range(KILLS):
        known = counts.latest.total()
        expected += write_lines(broker.bootstrap, LINES_A_RUN * (run + 1), LINES_A_RUN * (run + 2))
        with counting(broker.bootstrap, tmp_path / f"run-{run}") as process:
            try:
                wait_until(partial(has_moved, known), TIMEOUT_S, counts.describe)
            except AssertionError as error:
                error.add_note((tmp_path / f"run-{run}" / "words.log").read_text()[-5_000:])
                raise
            let_run(process, chance.random() * 0.3)
    with counting(broker.bootstrap, tmp_path / "last") as process:
        wait_until(partial(counts.become, expected), TIMEOUT_S, counts.describe)
        let_run(process, 1)
        assert counts.become(expected)
    counts.close()
