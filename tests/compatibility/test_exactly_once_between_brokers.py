"""A copy over three brokers, of which one after the other is killed, is exact.

Source, target, the group's offsets and the transactions have their leaders on all three, so that
markers and questions go between brokers. A partition has one replica: what a killed broker leads
waits until it is back.
"""

import random
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, combined

from ..waiting import wait_until
from .copier import Options
from .exactly_once_clients import JAVA, Reader, Writer, copying, let_run

PARTITIONS = 6
RECORDS = 6_000
KILLS = 3
SPREAD = {
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
}


@pytest.mark.parametrize(
    "client",
    [
        "confluent",
        # It lets the leaders of partitions add them to its transactions (KIP-890).
        pytest.param(JAVA, marks=[pytest.mark.long, pytest.mark.requires("java", "mvn")]),
    ],
)
def test_a_copy_is_exact_however_often_a_broker_is_killed(tmp_path: Path, client: str) -> None:
    chance = random.Random("a broker is killed")
    log = tmp_path / "copier.log"
    with Cluster(tmp_path, combined("tierlog", "tierlog", "tierlog"), SPREAD) as cluster:
        cluster.wait_until_caught_up()
        writer = Writer(cluster.bootstrap, ("source", "target"), PARTITIONS)
        reader = Reader(cluster.bootstrap, "target", PARTITIONS)
        options = Options(
            client=client,
            bootstrap=cluster.bootstrap,
            source="source",
            target="target",
            group="copier",
            batch=50,
        )

        def has_come(number: int, copier: "subprocess.Popen[bytes] | None" = None) -> bool:
            has_ended = copier is not None and copier.poll() is not None
            return reader.read(0.05, tolerant=True) > number or has_ended

        read = 0
        for kill in range(KILLS):
            writer.write(RECORDS * (kill + 1) // (KILLS + 1))
            with copying(options, log) as copier:
                wait_until(partial(has_come, read, copier), 120, lambda: log.read_text()[-2_000:])
                let_run(copier, chance.random() * 0.5)
                node = cluster.nodes[kill % 3 + 1]
                node.kill()
                let_run(copier, chance.random() * 0.5)
                node.start(120)
            read = reader.read(0.05, tolerant=True)
        writer.write(RECORDS)
        with copying(options, log):
            wait_until(partial(has_come, RECORDS - 1), 180, lambda: log.read_text()[-2_000:])
        reader.read(1)
        reader.close()
        for node in cluster.nodes.values():
            assert "Traceback" not in node.output
    for partition, values in enumerate(reader.values):
        assert values == list(range(partition, RECORDS, PARTITIONS))
