"""Readers of committed records, where the transactions are in the remote tier only.

Committed and aborted transactions of two producers, woven into one partition whose segments are
copied and then deleted here. Whatever the reader asks for, what was aborted is told with it: the
committed records come, all of them and in order, and no other.
"""

from importlib import import_module
from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from ..waiting import wait_until

TOPIC = "woven"
TRANSACTIONS = 120
RECORDS = 20
VALUE_BYTES = 1_000
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
}


def value_of(name: str, transaction: int, number: int) -> bytes:
    return f"{name} {transaction} {number} ".encode().ljust(VALUE_BYTES, b".")


def weave(bootstrap: str) -> list[bytes]:
    """Two producers whose transactions overlap; what they have committed."""
    client = import_module("confluent_kafka")
    producers = {
        name: client.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        for name in ("red", "blue")
    }
    for producer in producers.values():
        producer.init_transactions(30)
    written: list[tuple[bytes, bool]] = []
    for transaction in range(TRANSACTIONS):
        for producer in producers.values():
            producer.begin_transaction()
        for number in range(RECORDS):
            for name, producer in producers.items():
                value = value_of(name, transaction, number)
                producer.produce(TOPIC, value, partition=0)
                producer.flush(30)
                written.append((value, commits(name, transaction)))
        for name, producer in producers.items():
            if commits(name, transaction):
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
    return [value for value, committed in written if committed]


def commits(name: str, transaction: int) -> bool:
    return (transaction + (name == "red")) % 3 > 0


def read(bootstrap: str, first: int, *, committed: bool) -> list[bytes]:
    """The values from an offset to the end."""
    client = import_module("confluent_kafka")
    consumer = client.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([client.TopicPartition(TOPIC, 0, first)])
    values: list[bytes] = []
    while True:
        for each in consumer.consume(500, 5):
            if each.error() is None:
                values.append(bytes(each.value()))
                continue
            assert each.error().code() == client.KafkaError._PARTITION_EOF, each.error()
            consumer.close()
            return values


@pytest.mark.scenario("2.13")
def test_no_reader_sees_what_was_aborted_long_ago(tmp_path: Path) -> None:
    settings = {
        "rsm.config.url": (tmp_path / "remote").as_uri(),
        "log.retention.check.interval.ms": "500",
        "remote.log.manager.task.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "transaction.state.log.num.partitions": "1",
    }
    admins = import_module("confluent_kafka.admin")
    with BrokerProcess.on(tmp_path, settings) as broker:
        admin = admins.AdminClient({"bootstrap.servers": broker.bootstrap})
        (made,) = admin.create_topics([admins.NewTopic(TOPIC, 1, config=TOPIC_CONFIG)]).values()
        made.result()
        committed = weave(broker.bootstrap)
        segments = tmp_path / "data" / f"{TOPIC}-0"

        def are_away() -> bool:
            return len(list(segments.glob("*.log"))) <= 1

        wait_until(are_away, 120, lambda: str(sorted(segments.iterdir())))
        assert int(next(segments.glob("*.log")).stem) > len(committed)
        assert read(broker.bootstrap, 0, committed=True) == committed
        everything = read(broker.bootstrap, 0, committed=False)
        assert len(everything) == 2 * TRANSACTIONS * RECORDS
        # From the middle of a transaction: what comes is the end of what came before.
        some = read(broker.bootstrap, len(committed) // 2, committed=True)
        assert some == committed[-len(some) :]
        assert 0 < len(some) < len(committed)
        assert "Traceback" not in broker.log.read_text()
