"""A history is read to its end, also behind what a crashed process has left open."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tierlog.bench.harness.loads.acknowledged.history_client import Journal, Stated, read_everything
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.admin import create_topic

pytestmark = [pytest.mark.slow]
OPEN_MS = 3_000


def test_what_is_committed_behind_an_open_transaction_is_read(tmp_path: Path) -> None:
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    with TierlogNode(tmp_path, properties=often) as broker:
        create_topic(broker.bootstrap, "history", is_new_cluster=True)
        crashed = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "transactional.id": "crashed",
                "transaction.timeout.ms": OPEN_MS,
            }
        )
        crashed.init_transactions()
        crashed.begin_transaction()
        crashed.produce("history", b"1", partition=0)
        crashed.flush()
        plain = Producer({"bootstrap.servers": broker.bootstrap})
        plain.produce("history", b"2", partition=0)
        plain.flush()
        stated = Stated(broker.bootstrap, "history", 1, 1, 1, 1)
        journal = Journal(stated)
        read_everything(stated, journal)
    assert [read.value for event in journal.events for read in event.reads] == [2]
