"""A cluster whose nodes log in to each other by SASL over TLS: quorum, replicas, tier, failover."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.bench.harness.requests.probe import free_port
from tierlog.broker.broker import Broker
from tierlog.cli.command_line import run
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.security.three_nodes import (
    VALUES,
    Settings,
    node_properties,
    running,
    write_letters,
)
from tierlog.tests.security.tls.certificates import (
    broker_certificate,
    write_authority,
    write_identity,
)
from tierlog.tests.waiting import wait_until

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="node" password="plain secret"'
SCRAM = f'{MODULES}.scram.ScramLoginModule required username="node" password="scram secret";'
SESSION_MS = 2_000


def node(folder: Path, node_id: int, controllers: list[int], mechanism: str) -> BrokerThread:
    """A formatted broker; the first ones are controllers too, who log in with PLAIN."""
    directory = folder / f"node-{node_id}"
    users = 'user_node="plain secret" user_alice="her secret";'
    is_controller = node_id <= len(controllers)
    properties = node_properties(folder, node_id, controllers, "SASL_SSL") | {
        "log.dirs": str(directory),
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
    threads = [node(tmp_path, each, controllers, request.param) for each in (1, 2, 3)]
    with running(threads):
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
    settings: Settings = {
        "bootstrap.servers": ",".join(each.bootstrap for each in nodes),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "her secret",
        "ssl.ca.location": str(tmp_path / "ca-ours.pem"),
    }
    write_letters(settings, min_in_sync=2)
    wait_until(
        lambda: bool(list(live_paths(tmp_path / "tier", "**/*.log"))), 60, "a segment is tiered"
    )
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
