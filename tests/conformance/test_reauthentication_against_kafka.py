"""Every sequence of two frames behind a login, at a real Kafka and at ours (KIP-368).

The session has an end, so that a handshake begins a re-authentication.
"""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.broker.network.listener_oracle import Sequence, error_of
from tierlog.tests.broker.socket_peers import Peer, frame
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.security.sasl.sasl_frames import authenticate, handshake
from tierlog.tests.security.sasl.sasl_oracle import EVENTS

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LENGTH = 2
AGAIN: dict[str, bytes] = {
    **EVENTS,
    "handshake other": handshake("SCRAM-SHA-256"),
    "handshake other bare": handshake("SCRAM-SHA-256", version=0),
    "token of bob": authenticate(b"\0bob\0swordfish"),
    "token of scram": authenticate(b"n,,n=alice,r=nonce"),
}
LOGINS = [("handshake", "token"), ("handshake bare", "bare token")]
RETRIES = 2
"""A machine that stalls lets the second pass in which a re-authentication comes too soon."""

PROPERTIES = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "connection.failed.authentication.delay.ms": "0",
    "listener.name.clients.plain.sasl.jaas.config": (
        f'{MODULE} required user_alice="open sesame" user_bob="swordfish";'
    ),
    "listener.name.clients.plain.connections.max.reauth.ms": "3600000",
    "listener.name.clients.scram-sha-256.connections.max.reauth.ms": "3600000",
    "listener.name.clients.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}


Result = tuple[int | None, ...]
"""The error of each answer; None where the connection was closed instead, which is the end."""


class ClientsKafka(KafkaNode):
    """A Kafka with the listener."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, properties=PROPERTIES)
        self.clients_port = free_port()
        address = f"CLIENTS://127.0.0.1:{self.clients_port}"
        for name in ("listeners", "advertised.listeners"):
            self._stated[name] += f",{address}"
        self._stated["listener.security.protocol.map"] = (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT"
        )


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, int]]:
    folder = tmp_path_factory.mktemp("again")
    stated = PROPERTIES | {
        "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    }
    with (
        BrokerThread(folder / "ours", stated) as ours,
        ClientsKafka(folder / "kafka") as kafka,
    ):
        assert ours.broker is not None
        bound = {each.name: each.port for each in ours.broker.listeners.bound}
        yield {"ours": bound["CLIENTS"], "kafka": kafka.clients_port}


async def answer(peer: Peer) -> bytes | None:
    """The next answer; None if the connection ends before one."""
    try:
        return await peer.answer()
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None


async def play(port: int, sequence: Sequence) -> Result:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    errors: list[int | None] = []
    try:
        for event in sequence:
            peer.writer.write(frame(AGAIN[event]))
            received = await answer(peer)
            if received is None:
                return (*errors, None)
            errors.append(error_of(event, received))
        return tuple(errors)
    finally:
        peer.writer.close()


def is_listed(sequence: Sequence, kafkas: Result) -> bool:
    """Whether it ends in the one difference of docs/differences.md: why another mechanism fails."""
    return kafkas[-1] is None and sequence[len(kafkas) - 2].startswith("handshake other")


async def compared(ports: Mapping[str, int], sequence: Sequence) -> Result:
    """What both do, which has to be the same."""
    for left in reversed(range(RETRIES + 1)):
        ours, kafkas = await asyncio.gather(
            play(ports["ours"], sequence), play(ports["kafka"], sequence)
        )
        if ours == kafkas or (is_listed(sequence, kafkas) and ours == (*kafkas[:-1], 58)):
            return kafkas
        assert left, f"{sequence}: {ours} here, {kafkas} there"
    raise AssertionError


def test_both_do_the_same_behind_a_login(ports: Mapping[str, int]) -> None:
    async def story() -> int:
        count = 0
        beginnings: list[Sequence] = list(LOGINS)
        for _ in range(LENGTH):
            sequences = [(*begun, event) for begun in beginnings for event in AGAIN]
            results = [await compared(ports, sequence) for sequence in sequences]
            count += len(sequences)
            # Also those that are about to be closed: the next event shows it.
            beginnings = [
                sequence
                for sequence, result in zip(sequences, results, strict=True)
                if result[-1] is not None
            ]
        return count

    print(f"{asyncio.run(story())} sequences behind a login")
