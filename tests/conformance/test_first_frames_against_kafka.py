"""What clients may send first, at a real Kafka: it gives what the oracle of our listeners says.

`tests/broker/network/test_every_listener_kind.py` holds ours to that oracle, five frames deep.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.requests.probe import free_port
from tierlog.security.session import SecurityProtocol
from tierlog.tests.broker.network.listener_kinds import BROKER, CONTROLLER
from tierlog.tests.broker.network.listener_oracle import Sequence, plan, play_on_socket
from tierlog.tests.security.tls.certificates import broker_certificate, write_identity

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
KINDS: list[tuple[str, SecurityProtocol, int]] = [
    (BROKER, "PLAINTEXT", 3),
    (BROKER, "SSL", 2),
    (BROKER, "SASL_PLAINTEXT", 5),
    (BROKER, "SASL_SSL", 4),
    (CONTROLLER, "PLAINTEXT", 3),
    (CONTROLLER, "SASL_PLAINTEXT", 5),
]
"""Each with the length of its sequences."""
AT_ONCE = 8


def listener(name: str, protocol: str) -> str:
    return f"{name}_{protocol}"


class ListeningKafka(KafkaNode):
    """A Kafka with a listener of each of these kinds, besides those of its own."""

    def __init__(self, directory: Path, identity: Path) -> None:
        stated = {
            "sasl.enabled.mechanisms": "PLAIN",
            "connection.failed.authentication.delay.ms": "0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(identity),
        }
        super().__init__(directory, properties=stated)
        self.ports = {listener(name, protocol): free_port() for name, protocol, _ in KINDS}
        for name, protocol, _ in KINDS:
            own = listener(name, protocol)
            address = f"{own}://127.0.0.1:{self.ports[own]}"
            self._add("listeners", address)
            self._add("controller.listener.names" if name == CONTROLLER else "", own)
            self._add("advertised.listeners" if name == BROKER else "", address)
            self._add("listener.security.protocol.map", f"{own}:{protocol}")
            login = f'{MODULE} required user_alice="open sesame" user_bob="swordfish";'
            self._stated[f"listener.name.{own.lower()}.plain.sasl.jaas.config"] = login
        self._add("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")

    def _add(self, name: str, value: str) -> None:
        if name:
            self._stated[name] = ",".join(filter(None, [self._stated.get(name, ""), value]))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningKafka]:
    folder = tmp_path_factory.mktemp("first-frames")
    identity = write_identity(folder, "broker", broker_certificate())
    with ListeningKafka(folder, identity) as node:
        yield node


@pytest.mark.parametrize(("name", "protocol", "length"), KINDS)
async def test_kafka_gives_what_the_oracle_says(
    kafka: ListeningKafka, name: str, protocol: SecurityProtocol, length: int
) -> None:
    port = kafka.ports[listener(name, protocol)]
    sequences, count = plan(name, protocol, length)

    async def play(waiting: list[Sequence]) -> None:
        while waiting:
            await play_on_socket(name, protocol, port, waiting.pop())

    waiting = list(sequences)
    await asyncio.gather(*(play(waiting) for _ in range(AT_ONCE)))
    print(f"{name} {protocol}: {len(sequences)} plays for {count} sequences")
