"""A server whose clients log in with SASL, and the clients of its mechanisms."""

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from tierlog.broker.metrics.metrics import Metrics
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import Response
from tierlog.broker.network.sasl_gate import SaslLimits, SaslListener, SaslMetrics
from tierlog.broker.network.socket_server import ConnectionLimits
from tierlog.broker.network.tls_transport import TlsAcceptor
from tierlog.clients.protocol.connection import frame as framed
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.sasl.scram_keys import (
    ScramCredential,
    ScramMechanism,
    credential_of,
    decode64,
    encode64,
    proof_of,
    salted_password,
)
from tierlog.security.sasl.authenticator import OfferedMechanism
from tierlog.security.sasl.exchange import Mechanism
from tierlog.security.sasl.scram import ScramServer
from tierlog.tests.broker.socket_peers import Peer, Running, running
from tierlog.tests.security.sasl.sasl_frames import (
    GOOD,
    authenticate,
    handshake,
    plain,
    read_handshake,
    read_token,
)
from tierlog.tests.security.tls.certificates import server

SERVER = "kafka.server:type=socket-server-metrics,name="
SALT = b"salt of everybody"
ITERATIONS = 4096

Answers = Callable[[ConnectedClient, memoryview], Response]


def whoami(client: ConnectedClient, request: memoryview) -> Response:
    return framed([client.session.principal.encode()])


@asynccontextmanager
async def gated(
    *mechanisms: Mechanism,
    answers: Answers = whoami,
    delay_s: float = 0.0,
    max_reauth_ms: int = 0,
    max_bytes: int = 4096,
    has_tls: bool = False,
) -> AsyncGenerator[tuple[Running, Metrics]]:
    """A server that offers these mechanisms, or PLAIN."""
    metrics = Metrics()
    listener = SaslListener(
        "SASL_SSL" if has_tls else "SASL_PLAINTEXT",
        {each.name: OfferedMechanism(each, max_reauth_ms) for each in mechanisms or (plain(),)},
        SaslLimits(max_bytes, delay_s),
        SaslMetrics(metrics),
        lambda: 0,
    )
    tls = TlsAcceptor(server(), 60.0, "SASL_SSL") if has_tls else None
    limits = ConnectionLimits(max_request_bytes=1 << 20)
    async with running(answers, limits, tls=tls, sasl=listener) as started:
        yield started, metrics


def count(metrics: Metrics, name: str) -> float:
    return dict(metrics.read())[SERVER + name]


async def log_in(peer: Peer, token: bytes = GOOD) -> None:
    """Log in with PLAIN."""
    await peer.ask(handshake())
    assert read_token(bytes(4) + await peer.ask(authenticate(token))).error_code == 0


def scram(
    mechanism: ScramMechanism, users: Mapping[tuple[str, str], str], user_secret: bytes = b"secret"
) -> ScramServer:
    """The server's side of SCRAM; `users` has passwords by mechanism and name, and may change."""

    def kept(of: ScramMechanism, user: str) -> ScramCredential | None:
        password = users.get((of.name, user))
        if password is None:
            return None
        return credential_of(of, salted_password(of, password, SALT, ITERATIONS), SALT, ITERATIONS)

    return ScramServer(mechanism, kept, user_secret, SystemEnvironment().random_uuid)


class ScramLogin:
    """The client's side of one proof with SCRAM."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str) -> None:
        self._mechanism = mechanism
        self._password = password
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r=nonce"
        self.first = f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof."""
        text = challenge.decode()
        fields = dict(re.findall(r"(\w)=([^,]*)", text))
        unproven = f"c=biws,r={fields['r']}"
        signed = f"{self._bare},{text},{unproven}".encode()
        salt, iterations = decode64(fields["s"]), int(fields["i"])
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        return f"{unproven},p={encode64(proof_of(self._mechanism, salted, signed))}".encode()


async def prove(peer: Peer, mechanism: ScramMechanism, user: str, password: str) -> int:
    """Log in with SCRAM; returns the error of the last answer."""
    login = ScramLogin(mechanism, user, password)
    chosen = read_handshake(bytes(4) + await peer.ask(handshake(mechanism.name)))
    assert chosen.error_code == 0
    first = read_token(bytes(4) + await peer.ask(authenticate(login.first)))
    if first.error_code:
        return first.error_code
    answer = await peer.ask(authenticate(login.final(first.auth_bytes)))
    return read_token(bytes(4) + answer).error_code
