"""The broker is killed while a copier is at work: what was decided is carried out, nothing is torn.

Whatever the broker has answered is in its log, so the next one goes on from there: decided
transactions get their markers, offsets that are not decided stay so. The copier waits, or ends
because it cannot tell what became of its transaction; then another takes over.
"""

import random
import subprocess
from functools import partial
from pathlib import Path

from tierlog.bench.harness.requests.probe import free_port

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .copier import Options
from .exactly_once_clients import PARTITIONS, Reader, Writer, copying, let_run

RECORDS = 12_000
KILLS = 6


def test_a_copy_is_exact_however_often_the_broker_is_killed(tmp_path: Path) -> None:
    chance = random.Random("the broker is killed")
    settings = {
        "transaction.state.log.num.partitions": "3",
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
    }
    with BrokerProcess.on(tmp_path, settings) as first:
        bootstrap = first.bootstrap
        writer = Writer(bootstrap, ("source", "target"))
        reader = Reader(bootstrap, "target")
        options = Options(
            client="confluent",
            bootstrap=bootstrap,
            source="source",
            target="target",
            group="copier",
            batch=50,
        )
        first.process.kill()
    log = tmp_path / "copier.log"
    known = 0

    def has_come(number: int, copier: "subprocess.Popen[bytes] | None" = None) -> bool:
        has_ended = copier is not None and copier.poll() is not None
        return reader.read(0.05, tolerant=True) > number or has_ended

    for kill in range(KILLS):
        with BrokerProcess.on(tmp_path, settings) as broker:
            writer.write(RECORDS * (kill + 1) // (KILLS + 1))
            with copying(options, log) as copier:
                wait_until(partial(has_come, known, copier), 60, "nothing is copied")
                let_run(copier, chance.random() * 0.5)
                broker.process.kill()
                broker.process.wait()
        known = reader.read(0.05, tolerant=True)
    with BrokerProcess.on(tmp_path, settings) as broker:
        writer.write(RECORDS)
        with copying(options, log):
            wait_until(partial(has_come, RECORDS - 1), 120, lambda: log.read_text()[-2_000:])
        reader.read(1)
        reader.close()
        assert "Traceback" not in broker.log.read_text()
    for partition, values in enumerate(reader.values):
        assert values == list(range(partition, RECORDS, PARTITIONS))
