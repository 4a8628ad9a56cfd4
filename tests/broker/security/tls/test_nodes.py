"""A cluster whose nodes speak nothing but TLS, each with a certificate: quorum, replicas, tier."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tierlog.bench.probe import free_port
from tierlog.clients.kafka_uuid import Uuid
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.storage.files import OsFiles
from tierlog.tests.broker.security.tls.certificates import (
    broker_certificate,
    write_authority,
    write_identity,
)
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.waiting import wait_until

VALUES = [b"%04d" % number * 4_000 for number in range(300)]


def node(folder: Path, node_id: int, controllers: list[int]) -> BrokerThread:
    """A broker; the first ones are controllers too."""
    directory = folder / f"node-{node_id}"
    directory.mkdir()
    meta = MetaProperties("5L6g3nShT-eMCtK--X86sw", node_id, Uuid(bytes([node_id]) * 16))
    LogDir(OsFiles(), str(directory)).write_meta_properties(meta)
    listeners = ["NODES://127.0.0.1:0"]
    is_controller = node_id <= len(controllers)
    if is_controller:
        listeners.append(f"CONTROL://127.0.0.1:{controllers[node_id - 1]}")
    voters = [f"{index + 1}@127.0.0.1:{port}" for index, port in enumerate(controllers)]
    properties = {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROL",
        "inter.broker.listener.name": "NODES",
        "listener.security.protocol.map": "NODES:SSL,CONTROL:SSL",
        "listeners": ",".join(listeners),
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca-ours.pem"),
        "rsm.config.url": f"file://{folder}/tier",
        "remote.log.manager.task.interval.ms": "100",
        "log.initial.task.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.min.isr": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    }
    return BrokerThread(directory, properties)


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[dict[str, str | int | float | bool]]:
    """What a client needs, and three nodes behind it."""
    write_authority(tmp_path)
    identity = str(write_identity(tmp_path, "broker", broker_certificate()))
    controllers = [free_port(), free_port()]
    with ExitStack() as running:
        threads = [node(tmp_path, node_id, controllers) for node_id in (1, 2, 3)]
        # Neither of two voters can lead alone, so all nodes start at once.
        with ThreadPoolExecutor(3) as pool:
            for begun in [pool.submit(running.enter_context, each) for each in threads]:
                begun.result(60)
        yield {
            "bootstrap.servers": f"127.0.0.1:{threads[2].port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "ca-ours.pem"),
            "ssl.certificate.location": identity,
            "ssl.key.location": identity,
        }


@pytest.mark.long
def test_records_are_replicated_committed_and_tiered(
    settings: dict[str, str | int | float | bool], tmp_path: Path
) -> None:
    admins = import_module("confluent_kafka.admin")
    topic = admins.NewTopic(
        "letters",
        3,
        3,
        config={
            "min.insync.replicas": "3",
            "remote.storage.enable": "true",
            "segment.bytes": "1048576",
        },
    )
    admin = admins.AdminClient(settings)
    admin.create_topics([topic])["letters"].result(30)
    producer = Producer({**settings, "transactional.id": "writer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number, value in enumerate(VALUES):
        producer.produce("letters", value, partition=number % 3)
    producer.commit_transaction(30)
    group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **group})
    consumer.subscribe(["letters"])
    values: list[bytes] = []
    while len(values) < len(VALUES):
        for message in consumer.consume(len(VALUES) - len(values), 30):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    consumer.close()
    assert sorted(values) == VALUES
    wait_until(lambda: bool(list((tmp_path / "tier").rglob("*.log"))), 60, "a segment is tiered")
