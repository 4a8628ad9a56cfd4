"""Copiers of unmodified clients are killed again and again: the copy is exactly the original.

Each copies a topic in transactions that hold its positions too. It is killed at random moments and
started again, while a reader of committed records reads along. What the reader has read at the end
is every record once, in the order of the original.
"""

import os
import random
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .copier import COPIERS, Options
from .exactly_once_clients import JAVA, PARTITIONS, RECORDS, Reader, Writer, copying, let_run

KILLS = int(os.environ.get("TIERLOG_COPIER_KILLS", "6"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {
        "transaction.state.log.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    with BrokerProcess.on(tmp_path, settings) as process:
        yield process
        assert "Traceback" not in process.log.read_text()


@pytest.mark.parametrize(
    "client", [*sorted(COPIERS), pytest.param(JAVA, marks=pytest.mark.requires("java", "mvn"))]
)
def test_a_copy_is_exact_however_often_the_copier_is_killed(
    broker: BrokerProcess, tmp_path: Path, client: str
) -> None:
    chance = random.Random(client)
    writer = Writer(broker.bootstrap, ("source", "target"))
    options = Options(
        client=client,
        bootstrap=broker.bootstrap,
        source="source",
        target="target",
        group=f"copier-{client}",
        batch=250,
    )
    reader = Reader(broker.bootstrap, "target")
    log = tmp_path / "copier.log"
    known = 0

    def has_come(number: int, process: "subprocess.Popen[bytes]") -> bool:
        assert process.poll() is None, log.read_text()[-2_000:]
        return reader.read(0.05) > number

    for kill in range(KILLS):
        # There is always something left to copy when the copier is killed.
        writer.write(RECORDS * (kill + 1) // (KILLS + 1))
        with copying(options, log) as process:
            wait_until(partial(has_come, known, process), 120, lambda: log.read_text()[-2_000:])
            let_run(process, chance.random() * 0.3)
        known = reader.read(0.05)
    writer.write(RECORDS)
    with copying(options, log) as process:
        wait_until(partial(has_come, RECORDS - 1, process), 300, lambda: log.read_text()[-2_000:])
    reader.read(1)
    reader.close()
    for partition, values in enumerate(reader.values):
        assert values == list(range(partition, RECORDS, PARTITIONS))
