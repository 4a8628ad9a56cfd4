"""What a user does with tierlog, from the first start to a secured cluster, in a few stories.

`make test-kafka` runs them on each Python that the machine has (`test_other_pythons.py`), and once
more without what Linux alone has. They need no more than a user's own environment: tierlog with its
extras `testing`, `certificates` and `arrow`, confluent-kafka, and what `tests/conftest.py` imports.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.processes.tierlog_node import user_environment
from tierlog.bench.harness.requests.probe import free_port
from tierlog.tables import scan
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.pythons.deprecations import deprecations_of_ours
from tierlog.tests.waiting import wait_until

Config = dict[str, str | int | float | bool]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PROTOCOLS = ("classic", "consumer")
WITHIN_S = 60.0
CLUSTER_WITHIN_S = 120.0
RECORDS = 300
"""Of each topic; those of the tier fill several segments."""

_FIXTURE_TEST = """
def test_an_order_arrives(tierlog_broker, tierlog_topic):
    from confluent_kafka import Producer

    producer = Producer(tierlog_broker.config())
    producer.produce(tierlog_topic, b"one pear")
    producer.flush()
    assert [record.value for record in tierlog_broker.records(tierlog_topic)] == [b"one pear"]
    tierlog_broker.offload(tierlog_topic)
    tierlog_broker.kill()
    tierlog_broker.restart()
    assert [record.value for record in tierlog_broker.records(tierlog_topic)] == [b"one pear"]
"""

_TIERED = ("remote.storage.enable=true", "segment.bytes=1048576", "local.retention.bytes=1")
_SOON = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}


@pytest.fixture
def warned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processes of this test say what is deprecated, and what they said is looked through."""
    monkeypatch.setenv("PYTHONWARNINGS", "always::DeprecationWarning")
    yield
    for log in tmp_path.rglob("*.log"):
        if log.name[0].isdigit():
            continue  # a segment
        assert deprecations_of_ours(log.read_text(errors="replace")) == [], log


def client(bootstrap: str, **options: str | float | bool) -> Config:
    """A configuration of confluent-kafka; underscores stand for dots."""
    stated = {name.replace("_", "."): value for name, value in options.items()}
    return {"bootstrap.servers": bootstrap, "log_level": 3, **stated}


def values(count: int, name: str = "value") -> list[bytes]:
    return [b"%s %d" % (name.encode(), number) for number in range(count)]


def produce(config: Config, topic: str, records: list[bytes], padding: int = 0) -> None:
    """Each record is acknowledged, or this is an AssertionError."""
    refused: list[object] = []

    def on_delivery(error: object, _record: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer(config)
    for number, value in enumerate(records):
        producer.produce(topic, value, key=b"%d" % number + b"." * padding, on_delivery=on_delivery)
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0
    assert refused == []


def consume(config: Config, topic: str, count: int) -> list[bytes]:
    """The values of the first `count` records, as a member of a group reads them."""
    consumer = Consumer({"auto.offset.reset": "earliest", **config})
    consumer.subscribe([topic])
    read: list[bytes] = []

    def has_all() -> bool:
        for record in consumer.consume(500, 0.2):
            if record.error() is not None:
                raise KafkaException(record.error())
            read.append(bytes(record.value() or b""))
        return len(read) >= count

    try:
        wait_until(has_all, WITHIN_S, lambda: f"{len(read)} of {count} records of {topic}")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return read


def tierlog(*words: str, directory: Path) -> str:
    """What a command prints; AssertionError with its complaints if it fails."""
    answer = subprocess.run(
        [sys.executable, "-m", "tierlog.cli", *words],
        cwd=directory,
        env=user_environment(),
        capture_output=True,
        text=True,
        timeout=CLUSTER_WITHIN_S,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    (directory / f"{words[0]}.log").write_text(answer.stderr)
    return answer.stdout


@pytest.mark.usefixtures("warned")
def test_records_of_every_codec_are_read_in_a_group_of_either_protocol(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path) as broker:
        for codec in CODECS:
            produce(client(broker.bootstrap, compression_type=codec), codec, values(RECORDS))
            for protocol in PROTOCOLS:
                group = client(
                    broker.bootstrap, group_id=f"{codec}-{protocol}", group_protocol=protocol
                )
                assert consume(group, codec, RECORDS) == values(RECORDS)
        assert broker.stop() == 0


@pytest.mark.usefixtures("warned")
def test_a_transaction_is_seen_whole_or_not_at_all(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path) as broker:
        producer = Producer(client(broker.bootstrap, transactional_id="orders"))
        producer.init_transactions(WITHIN_S)
        for name, ends in (
            ("first", producer.commit_transaction),
            ("never", producer.abort_transaction),
            ("second", producer.commit_transaction),
        ):
            producer.begin_transaction()
            producer.produce("orders", name.encode())
            ends(WITHIN_S)
        group = client(broker.bootstrap, group_id="g", isolation_level="read_committed")
        assert consume(group, "orders", 2) == [b"first", b"second"]


@pytest.mark.usefixtures("warned")
def test_a_topic_moves_to_the_tier_and_survives_a_kill(tmp_path: Path) -> None:
    tier = f"file://{tmp_path}/tier"
    log = tmp_path / "data" / "orders-0"

    def local_segments() -> list[str]:
        return sorted(path.name for path in log.glob("*.log"))

    properties = {**_SOON, "rsm.config.url": tier}
    with BrokerProcess.on(tmp_path, properties) as broker:
        configs = [word for each in _TIERED for word in ("-c", each)]
        words = ("topic", "create", "orders", "-b", broker.bootstrap, *configs)
        tierlog(*words, directory=tmp_path)
        produce(
            client(broker.bootstrap, batch_num_messages=10),
            "orders",
            values(RECORDS),
            padding=16_000,
        )
        wait_until(
            lambda: len(local_segments()) <= 2 and "0".zfill(20) + ".log" not in local_segments(),
            WITHIN_S,
            lambda: f"local segments: {local_segments()}",
        )
        assert consume(client(broker.bootstrap, group_id="a"), "orders", RECORDS) == values(RECORDS)
        broker.kill()
    with BrokerProcess.on(tmp_path, properties) as broker:
        assert consume(client(broker.bootstrap, group_id="b"), "orders", RECORDS) == values(RECORDS)
        produce(client(broker.bootstrap), "orders", values(1, "later"))
        everything = consume(client(broker.bootstrap, group_id="c"), "orders", RECORDS + 1)
        assert everything == [*values(RECORDS), *values(1, "later")]
        assert broker.stop() == 0
    table = scan(tier, "orders").to_table()
    assert table["offset"].to_pylist() == list(range(len(table)))
    assert table["value"].to_pylist() == values(RECORDS)[: len(table)]
    assert len(table) >= RECORDS // 3


@pytest.mark.usefixtures("warned")
def test_three_brokers_come_with_one_command(tmp_path: Path) -> None:
    log = (tmp_path / "up.log").open("w")
    up = subprocess.Popen(
        [
            *(sys.executable, "-m", "tierlog.cli", "cluster", "up"),
            *("--dir", str(tmp_path / "three")),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        env=user_environment(),
        text=True,
    )
    with log, up:
        try:
            assert up.stdout is not None
            bootstrap = ready_address(up.stdout.readline, up)
            config = client(bootstrap, acks="all")
            produce(config, "orders", values(RECORDS))
            assert consume(client(bootstrap, group_id="g"), "orders", RECORDS) == values(RECORDS)
            metadata = AdminClient(config).list_topics(timeout=WITHIN_S)
            assert len(metadata.brokers) == 3
        finally:
            up.terminate()
            up.communicate(timeout=CLUSTER_WITHIN_S)
    assert up.returncode == 0


def ready_address(read_line: Callable[[], str], process: subprocess.Popen[str]) -> str:
    """The bootstrap list of the line that says that a cluster is ready."""
    printed: list[str] = []
    while line := read_line():
        printed.append(line)
        if match := re.search(r" ready on (\S+)", line):
            return match[1]
    raise AssertionError(f"exit code {process.wait()}, printed: {printed}")


@pytest.mark.usefixtures("warned")
def test_a_secured_broker_lets_in_who_has_the_password(tmp_path: Path) -> None:
    port = free_port()
    tierlog("secure", "init", "dev", "--port", str(port), directory=tmp_path)
    dev = tmp_path / "dev"
    with BrokerProcess(["--config", str(dev / "server.properties")], tmp_path) as broker:
        secured = {
            "security_protocol": "SASL_SSL",
            "ssl_ca_location": str(dev / "ca.pem"),
            "sasl_mechanisms": "SCRAM-SHA-512",
            "sasl_username": "admin",
        }
        bootstrap = f"localhost:{port}"
        admin = client(bootstrap, **secured, sasl_password=(dev / "password").read_text().strip())
        produce(admin, "orders", values(RECORDS))
        assert consume({**admin, "group.id": "g"}, "orders", RECORDS) == values(RECORDS)
        stranger = client(bootstrap, **secured, sasl_password="a guess")
        stranger["log_level"] = 0
        with pytest.raises(KafkaException):
            AdminClient(stranger).list_topics(timeout=3)
        words = ("topic", "ls", "--json", "--command-config", str(dev / "client.properties"))
        assert "orders" in tierlog(*words, directory=tmp_path)
        assert broker.stop() == 0


@pytest.mark.usefixtures("warned")
@pytest.mark.parametrize("where", ["thread", "process"])
def test_the_fixture_works_in_somebodys_tests(tmp_path: Path, where: str) -> None:
    (tmp_path / "test_orders.py").write_text(_FIXTURE_TEST)
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"),
            *(["--tierlog-process"] if where == "process" else []),
        ],
        cwd=tmp_path,
        env={**user_environment(), "PYTHONWARNINGS": os.environ["PYTHONWARNINGS"]},
        capture_output=True,
        text=True,
        timeout=CLUSTER_WITHIN_S,
        check=False,
    )
    assert "1 passed" in answer.stdout, answer.stdout + answer.stderr
