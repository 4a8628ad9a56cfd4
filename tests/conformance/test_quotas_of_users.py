"""Which quota applies to whom, decided by Apache Kafka and by ours, over the wire (KIP-13, 546).

Each round sets quotas of users, client ids and both, and of defaults, at random: some so small that
one record exceeds them, others that nothing reaches. Then users who have logged in with SASL write
one record each under several client ids. Who is throttled shows which of the quotas applied.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.header import RequestHeader, encode_request_header
from tierlog.clients.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tierlog.clients.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tierlog.clients.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch

from ..broker_process import BrokerProcess, RawClient

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = ("alice", "CN=dora,O=people")
CLIENT_IDS = ("c", "d/e", "", None)
KEY, TINY, HUGE = "producer_byte_rate", 1.0, 1e12
ROUNDS, SEED = 30, 29

Entity = tuple[tuple[str, str | None], ...]


def _entities() -> list[Entity]:
    users: list[Entity] = [(("user", name),) for name in (*USERS, None)]
    clients: list[Entity] = [(("client-id", name),) for name in ("c", "d/e", None)]
    return [*users, *clients, *(client + user for user in users for client in clients)]


ENTITIES = _entities()


class Peer(NamedTuple):
    """One of the two brokers: the ports of its listeners."""

    plain: int
    sasl: int

    def set(self, quotas: dict[Entity, float]) -> None:
        """These quotas and no others."""
        entries = [
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[OpData(key=KEY, value=quotas.get(entity, 0.0), remove=entity not in quotas)],
            )
            for entity in ENTITIES
        ]
        with RawClient(self.plain) as admin:
            request = AlterClientQuotasRequest(entries=entries)
            answer = admin.ask(request, 1, AlterClientQuotasResponse)
        assert {each.error_code for each in answer.entries} == {0}

    def is_throttled(self, user: str, client_id: str | None) -> bool:
        """Whether a record of this client exceeds its quota."""
        with RawClient(self.sasl) as client:
            client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
            proof = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}".encode())
            assert client.ask(proof, 2, SaslAuthenticateResponse).error_code == 0
            batch = bytes(build_batch([Record(0, 0, None, b"x" * 100)]))
            data = [
                TopicProduceData(name="t", partition_data=[PartitionProduceData(records=batch)])
            ]
            request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=data)
            header = RequestHeader(request.api_key, 9, 77, client_id)
            client.send_frame(encode_request_header(header) + encode_bytes(request, 9))
            answer = client.receive(header)
        assert isinstance(answer, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0
        return answer.throttle_time_ms > 0

    def throttled(self) -> list[tuple[str, str | None]]:
        return [
            (user, client_id)
            for user in USERS
            for client_id in CLIENT_IDS
            if self.is_throttled(user, client_id)
        ]


def _properties(ports: Sequence[int]) -> dict[str, str]:
    options = f'user_alice="alice" "user_{USERS[1]}"="{USERS[1]}"'
    return {
        "listeners": ",".join(
            f"{name}://127.0.0.1:{port}"
            for name, port in zip(("PLAINTEXT", "SASL_PLAINTEXT", "CONTROLLER"), ports, strict=True)
        ),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},"
        f"SASL_PLAINTEXT://127.0.0.1:{ports[1]}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{ports[2]}",
        "node.id": "1",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required {options};",
    }


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[tuple[Peer, Peer]]:
    for name in ("kafka", "ours"):
        (tmp_path / name).mkdir()
    theirs, own = ([free_port() for _ in range(3)] for _ in range(2))
    kafka = KafkaNode(
        tmp_path / "kafka", properties=_properties(theirs), port=theirs[0], heap="512m"
    )
    mine = {**_properties(own), "process.roles": "broker,controller"}
    with kafka, BrokerProcess.on(tmp_path / "ours", mine):
        both = (Peer(*theirs[:2]), Peer(*own[:2]))
        for each in both:
            made = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            with RawClient(each.plain) as admin:
                request = CreateTopicsRequest(topics=[made], timeout_ms=30_000)
                admin.ask(request, 7, CreateTopicsResponse)
        yield both


def expected(quotas: dict[Entity, float], user: str, client_id: str | None) -> float | None:
    """The documented precedence: that of the first of these which is set."""
    for name in (user, None):
        for client in (client_id, None):
            if client_id:
                limit = quotas.get((("client-id", client), ("user", name)))
                if limit is not None:
                    return limit
        if (limit := quotas.get((("user", name),))) is not None:
            return limit
    for client in (client_id, None) if client_id else ():
        if (limit := quotas.get((("client-id", client),))) is not None:
            return limit
    return None


def test_the_same_quota_applies_to_each_user_and_client(
    peers: tuple[Peer, Peer],
) -> None:
    random = Random(SEED)
    kafka, ours = peers
    differences: list[str] = []
    for number in range(ROUNDS):
        chosen = random.sample(ENTITIES, random.randint(1, 6))
        quotas = {entity: random.choice((TINY, TINY, HUGE)) for entity in chosen}
        for peer in peers:
            peer.set(quotas)
        at_kafka, at_ours = kafka.throttled(), ours.throttled()
        table = [
            (user, client_id)
            for user in USERS
            for client_id in CLIENT_IDS
            if expected(quotas, user, client_id) == TINY
        ]
        if not at_kafka == at_ours == table:
            differences.append(f"{number} {quotas}: {at_kafka} {at_ours} {table}")
    assert not differences, "\n".join(differences)
