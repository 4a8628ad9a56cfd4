"""Nodes of Kafka and of ours log in to each other by SASL, and our commands to both.

One controller, with PLAIN, of either software; a broker of each, with SCRAM. Sessions last three
seconds, so that each side renews them at the other.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tierlog.bench.harness.processes.cluster import Cluster, ClusterNode, Kind, separate
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.network.channel import Channel
from tierlog.clients.network.network import NetworkClient, NetworkConfig
from tierlog.clients.network.security import ConnectionSecurity
from tierlog.clients.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.sasl.client_mechanism import client_mechanism
from tierlog.clients.sasl.secret import Secret
from tierlog.tests.cli.client.command_run import Tierlog
from tierlog.tests.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java", "mvn"),
    pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning"),
]

admins = import_module("confluent_kafka.admin")  # its types name too little
MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="node" password="plain secret"'
SCRAM = f'{MODULES}.scram.ScramLoginModule required username="node" password="scram secret";'
USERS = 'user_node="plain secret"'
KAFKA, OURS = 11, 12
ROUNDS = 40
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROPERTIES = {
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,NODES:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
    ),
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} {USERS};",
    "listener.name.nodes.sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.nodes.plain.sasl.jaas.config": f"{PLAIN} {USERS};",
    "listener.name.nodes.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.nodes.scram-sha-512.sasl.jaas.config": SCRAM,
    "connections.max.reauth.ms": "3000",
}


@pytest.fixture(scope="module", params=["kafka", "tierlog"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, list[int]]]:
    """The cluster, and the ports at which its brokers of Kafka and of ours serve nodes."""
    controller: Kind = request.param
    folder: Path = tmp_path_factory.mktemp(controller)
    cluster = Cluster(folder, separate([controller], ["kafka", "tierlog"]), PROPERTIES)
    ports = [free_port(), free_port()]
    for node_id, port in zip((KAFKA, OURS), ports, strict=True):
        node = cluster.nodes[node_id]
        listeners = f"PLAINTEXT://127.0.0.1:{node.port},NODES://127.0.0.1:{port}"
        node.state(
            {
                "listeners": listeners,
                "advertised.listeners": listeners,
                "inter.broker.listener.name": "NODES",
            }
        )
    cluster.start()
    try:
        yield cluster, ports
    finally:
        cluster.kill()


def add_users(node: ClusterNode) -> None:
    """The nodes' user of SCRAM; until then, brokers cannot log in to each other."""
    admin = admins.AdminClient({"bootstrap.servers": node.bootstrap})
    for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(kind, 8192)
        change = UserScramCredentialUpsertion("node", info, b"scram secret")
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(30)


def test_they_replicate_from_each_other(cluster: tuple[Cluster, list[int]]) -> None:
    nodes = cluster[0].nodes
    add_users(nodes[KAFKA])
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": cluster[0].bootstrap}
    admin = admins.AdminClient(settings)
    topic = admins.NewTopic(
        "letters",
        2,
        replica_assignment=[[KAFKA, OURS], [OURS, KAFKA]],
        config={"min.insync.replicas": "2"},
    )
    admin.create_topics([topic])["letters"].result(60)
    producer = Producer({**settings, "acks": "all", "delivery.timeout.ms": 60_000})
    failures: list[object] = []
    for number in range(ROUNDS):
        for partition in (0, 1):
            producer.produce(
                "letters",
                b"%d" % number,
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        # Each record on both brokers; sessions of three seconds end meanwhile.
        assert producer.flush(60) == 0
        producer.poll(0.2)
    assert not failures
    group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **group})
    consumer.subscribe(["letters"])
    values: list[bytes] = []
    while len(values) < 2 * ROUNDS:
        arrived = consumer.consume(2 * ROUNDS - len(values), 30)
        values += [each.value() or b"" for each in arrived if each.error() is None]
    consumer.close()
    assert sorted(values) == sorted(2 * [b"%d" % number for number in range(ROUNDS)])


def stated(mechanism: str, password: str) -> list[str]:
    values = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "node",
        "sasl.password": password,
    }
    return [word for name, value in values.items() for word in ("-X", f"{name}={value}")]


class LongClient(NetworkClient):
    """A client that outlives sessions, and counts its connections."""

    opened = 0

    def _new_channel(self) -> Channel:
        self.opened += 1
        return super()._new_channel()

    async def outlive(self, sessions: int) -> int:
        """How many connections that takes."""
        for _ in range(sessions + 1):
            await self.request(-1, MetadataRequest(topics=[]), MetadataResponse)
            # After the time to renew, or even after the end: a handshake is let in then too.
            await asyncio.sleep(2.9)
        await self.close()
        return self.opened


def test_a_session_is_renewed_on_its_connection(cluster: tuple[Cluster, list[int]]) -> None:
    async def opened() -> list[int]:
        login = client_mechanism("PLAIN", "node", Secret("plain secret"))
        config = NetworkConfig(security=ConnectionSecurity(login=login))
        addresses = [f"127.0.0.1:{port}" for port in cluster[1]]
        clients = [LongClient(each, SystemEnvironment(), config) for each in addresses]
        return await asyncio.gather(*(each.outlive(2) for each in clients))

    assert asyncio.run(opened()) == [1, 1]


def lets_in(tierlog: Tierlog, words: list[str]) -> bool:
    return tierlog("topic", "ls", *words).code == 0


def test_our_commands_log_in_to_both_and_read_the_same_refusals(
    cluster: tuple[Cluster, list[int]],
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, ports = cluster
    add_users(whole.nodes[OURS])
    both = [Tierlog(capfdbinary, monkeypatch, f"127.0.0.1:{port}") for port in ports]
    for mechanism in MECHANISMS:
        secret = f"{mechanism.split('-')[0].lower()} secret"
        for tierlog in both:
            # A user is there once the metadata has come to that broker.
            wait_until(partial(lets_in, tierlog, stated(mechanism, secret)), 60, mechanism)
        refusals = [tierlog("topic", "ls", *stated(mechanism, "wrong")).err for tierlog in both]
        theirs, ours = (
            each.replace(str(port), "PORT") for each, port in zip(refusals, ports, strict=True)
        )
        assert theirs == ours
        assert "uthentication" in ours
    unknown = [tierlog("topic", "ls", *stated("GSSAPI", "x")).code for tierlog in both]
    assert unknown == [2, 2]
