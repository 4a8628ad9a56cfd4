"""A cluster whose nodes log in to each other by SASL over TLS: quorum, replicas, tier, failover."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tierlog.bench.probe import free_port
from tierlog.broker.broker import Broker
from tierlog.broker.command_line import run
from tierlog.tests.broker.security.tls.certificates import (
    broker_certificate,
    write_authority,
    write_identity,
)
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.waiting import wait_until

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="node" password="plain secret"'
SCRAM = f'{MODULES}.scram.ScramLoginModule required username="node" password="scram secret";'
VALUES = [b"%04d" % number * 4_000 for number in range(300)]
SESSION_MS = 2_000


def node(folder: Path, node_id: int, controllers: list[int], mechanism: str) -> BrokerThread:
    """A formatted broker; the first ones are controllers too, who log in with PLAIN."""
    directory = folder / f"node-{node_id}"
    listeners = ["NODES://127.0.0.1:0"]
    is_controller = node_id <= len(controllers)
    if is_controller:
        listeners.append(f"CONTROL://127.0.0.1:{controllers[node_id - 1]}")
    voters = [f"{index + 1}@127.0.0.1:{port}" for index, port in enumerate(controllers)]
    users = 'user_node="plain secret" user_alice="her secret";'
    properties = {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(node_id),
        "log.dirs": str(directory),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROL",
        "inter.broker.listener.name": "NODES",
        "listener.security.protocol.map": "NODES:SASL_SSL,CONTROL:SASL_SSL",
        "listeners": ",".join(listeners),
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "listener.name.control.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.control.plain.sasl.jaas.config": f"{PLAIN} {users}"
        if is_controller
        else f"{PLAIN};",
        "listener.name.nodes.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.nodes.plain.sasl.jaas.config": f"{PLAIN} {users}",
        "listener.name.nodes.scram-sha-512.sasl.jaas.config": SCRAM,
        "connections.max.reauth.ms": str(SESSION_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node;User:alice",
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
    file = folder / f"node-{node_id}.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
    user = "SCRAM-SHA-512=[name=node,password=scram secret]"
    arguments = ["--config", str(file), "--cluster-id", CLUSTER, "--add-scram", user]
    assert run(["format", *arguments], 0) == 0
    return BrokerThread(directory, properties)


@pytest.fixture(params=["SCRAM-SHA-512", "PLAIN"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[BrokerThread]]:
    write_authority(tmp_path)
    write_identity(tmp_path, "broker", broker_certificate())
    controllers = [free_port() for _ in range(3)]
    with ExitStack() as running:
        threads = [node(tmp_path, each, controllers, request.param) for each in (1, 2, 3)]
        with ThreadPoolExecutor(3) as pool:
            for begun in [pool.submit(running.enter_context, each) for each in threads]:
                begun.result(60)
        yield threads


def counted(nodes: list[BrokerThread], what: str) -> float:
    """Of all nodes together, since their start."""
    prefix = f"kafka.server:type=socket-server-metrics,name={what}-"

    async def count(broker: Broker | None) -> float:
        assert broker is not None
        return sum(value for name, value in broker.metrics.read() if name.startswith(prefix))

    return sum(each.run(count(each.broker)) for each in nodes)


@pytest.mark.long
def test_records_are_replicated_tiered_and_survive_the_leader(
    nodes: list[BrokerThread], tmp_path: Path
) -> None:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": ",".join(each.bootstrap for each in nodes),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "her secret",
        "ssl.ca.location": str(tmp_path / "ca-ours.pem"),
    }
    admins = import_module("confluent_kafka.admin")
    topic = admins.NewTopic(
        "letters",
        3,
        3,
        config={
            "min.insync.replicas": "2",
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
    wait_until(lambda: bool(list((tmp_path / "tier").rglob("*.log"))), 60, "a segment is tiered")
    wait_until(lambda: counted(nodes, "successful-reauthentication") > 9, 60, "sessions renewed")
    assert counted(nodes, "failed-reauthentication") == 0
    # One third of the partitions loses its leader, and the quorum perhaps its own.
    assert nodes[2].broker is not None
    nodes[2].run(nodes[2].broker.stop())
    group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **group})
    consumer.subscribe(["letters"])
    values: list[bytes] = []
    while len(values) < len(VALUES):
        arrived = consumer.consume(len(VALUES) - len(values), 30)
        values += [each.value() or b"" for each in arrived if each.error() is None]
    consumer.close()
    assert sorted(values) == VALUES
