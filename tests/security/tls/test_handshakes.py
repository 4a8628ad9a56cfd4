"""Handshakes as Kafka's `SslTransportLayerTest` plays them, through real sockets."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme

from tierlog.broker.metrics.metrics import Metrics
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import Response
from tierlog.broker.network.sasl_gate import SaslLimits, SaslListener, SaslMetrics
from tierlog.broker.network.tls_transport import TlsAcceptor
from tierlog.clients.network.tls import ClientTls, client_context as make_client_context
from tierlog.clients.protocol.connection import frame as framed
from tierlog.security.sasl.authenticator import OfferedMechanism
from tierlog.security.tls.context import server_context
from tierlog.security.tls.settings import (
    ClientAuth,
    KeyStore,
    Secret,
    TlsSettings,
    TrustStore,
)
from tierlog.tests.broker.socket_peers import Running, running, until
from tierlog.tests.security.sasl.sasl_frames import (
    authenticate,
    handshake,
    metadata,
    plain,
    read_token,
)

from .certificates import (
    authority,
    chain_text,
    client_context,
    key_text,
    person,
    server,
    tls_settings,
)

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
AES_128, AES_256 = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"
PATIENCE_S = 60.0


def whoami(client: ConnectedClient, request: memoryview) -> Response:
    return framed([client.session.principal.encode()])


def acceptor(settings: TlsSettings) -> TlsAcceptor:
    return TlsAcceptor(server_context(settings), PATIENCE_S)


def context_of(certificate: str, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """A client's context with a certificate of this kind."""
    owners = {"valid": person("alice"), "untrusted": person("eve", "theirs"), "absent": None}
    context = client_context(owners[certificate])
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


async def name_of(broker: Running, context: ssl.SSLContext) -> str:
    """As whom the client is served; else OpenSSL's reason for the failure, as the client has it.

    With TLS 1.3, a client learns with its first read that it is not let in.
    """
    try:
        peer = await broker.connect(context)
        return (await peer.ask(b"who")).decode()
    except ssl.SSLError as error:
        return error.reason or "no reason"
    except (ConnectionError, asyncio.IncompleteReadError):
        return "disconnected"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("mode", "let_in"),
    [
        ("none", {"valid": False, "untrusted": False, "absent": False}),
        ("requested", {"valid": True, "absent": False}),
        ("required", {"valid": True}),
    ],
)
async def test_who_is_let_in_by_certificate(
    mode: ClientAuth, let_in: dict[str, bool], version: ssl.TLSVersion
) -> None:
    """In `let_in` are those who are, and whether the certificate gives them a name."""
    async with running(whoami, tls=TlsAcceptor(server(mode), PATIENCE_S)) as broker:
        for certificate in ("valid", "untrusted", "absent"):
            name = await name_of(broker, context_of(certificate, version))
            if certificate not in let_in:
                assert not name.startswith("User:")
            elif let_in[certificate]:
                assert "CN=alice" in name
            else:
                assert name == "User:ANONYMOUS"
        refused = 3 - len(let_in)
        assert broker.metric("failed-authentication-total") == refused


@pytest.mark.parametrize(
    ("context", "alert"),
    [
        (lambda: context_of("absent"), "CERTIFICATE_REQUIRED"),
        (lambda: context_of("untrusted"), "UNKNOWN_CA"),
        (lambda: client_context(person("old", has_expired=True)), "CERTIFICATE_EXPIRED"),
        (lambda: context_of("absent", ssl.TLSVersion.TLSv1_2), "HANDSHAKE_FAILURE"),
        (lambda: context_of("untrusted", ssl.TLSVersion.TLSv1_2), "UNKNOWN_CA"),
    ],
)
async def test_the_client_is_given_the_reason(
    context: Callable[[], ssl.SSLContext], alert: str
) -> None:
    async with running(whoami, tls=TlsAcceptor(server("required"), PATIENCE_S)) as broker:
        assert alert in await name_of(broker, context())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("anchor", ["intermediate", "own certificate"])
async def test_each_certificate_of_a_trust_store_is_trusted(
    anchor: str, version: ssl.TLSVersion
) -> None:
    """Also one that another authority has issued, as in Java."""
    department = authority("ours").create_child_ca()
    alice = department.issue_cert("alice@example.org", common_name="alice")
    trusted = department.cert_pem if anchor == "intermediate" else alice.cert_chain_pems[0]
    text = trusted.bytes().decode()
    settings = tls_settings("required")._replace(trust=TrustStore(certificates=Secret(text)))

    async with running(whoami, tls=acceptor(settings)) as broker:
        for identity in (alice, person("eve"), person("eve", "theirs")):
            context = client_context(identity)
            context.minimum_version = context.maximum_version = version
            name = await name_of(broker, context)
            assert ("CN=alice" in name) == (identity is alice), name


async def test_each_certificate_that_a_client_of_ours_trusts_vouches(tmp_path: Path) -> None:
    department = authority("ours").create_child_ca()
    certificate = department.issue_cert("127.0.0.1", "localhost")
    keys = KeyStore(key=Secret(key_text(certificate)), chain=Secret(chain_text(certificate)))
    trusted = tmp_path / "department.pem"
    department.cert_pem.write_to_path(trusted)

    async with running(whoami, tls=acceptor(tls_settings()._replace(keys=keys))) as broker:
        ours = make_client_context(ClientTls(trusted=str(trusted)))
        assert await name_of(broker, ours) == "User:ANONYMOUS"
    async with running(whoami, tls=TlsAcceptor(server(), PATIENCE_S)) as broker:
        assert await name_of(broker, ours) == "CERTIFICATE_VERIFY_FAILED"


@pytest.mark.parametrize("kind", [trustme.KeyType.ECDSA, trustme.KeyType.RSA])
async def test_keys_of_both_kinds_serve(kind: trustme.KeyType) -> None:
    certificate = authority("ours").issue_cert("127.0.0.1", key_type=kind)
    keys = KeyStore(key=Secret(key_text(certificate)), chain=Secret(chain_text(certificate)))

    settings = tls_settings()._replace(keys=keys)
    async with running(whoami, tls=acceptor(settings)) as broker:
        for version in VERSIONS:
            assert await name_of(broker, context_of("absent", version)) == "User:ANONYMOUS"


async def test_without_a_common_version_nobody_is_let_in() -> None:
    names = {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}
    for ours in VERSIONS:
        settings = tls_settings()._replace(oldest=names[ours], newest=names[ours])
        async with running(whoami, tls=acceptor(settings)) as broker:
            for theirs in VERSIONS:
                name = await name_of(broker, context_of("absent", theirs))
                if ours is theirs:
                    assert name == "User:ANONYMOUS"
                else:
                    assert "PROTOCOL_VERSION" in name


async def test_without_a_common_suite_nobody_is_let_in() -> None:
    settings = tls_settings()._replace(ciphers=(AES_256,), newest="TLSv1.2")
    async with running(whoami, tls=acceptor(settings)) as broker:
        for suite, is_let_in in ((AES_256, True), (AES_128, False)):
            context = context_of("absent", ssl.TLSVersion.TLSv1_2)
            context.set_ciphers(suite)
            name = await name_of(broker, context)
            assert name.startswith("User:") == is_let_in
            assert is_let_in or "HANDSHAKE_FAILURE" in name
    # A suite of TLS 1.2 says nothing about TLS 1.3.
    async with running(whoami, tls=acceptor(settings._replace(newest="TLSv1.3"))) as broker:
        context = context_of("absent", ssl.TLSVersion.TLSv1_3)
        context.set_ciphers(AES_128)
        assert await name_of(broker, context) == "User:ANONYMOUS"


class Hanging:
    """A client that sends its handshake up to some byte, and leaves."""

    def __init__(self, port: int, version: ssl.TLSVersion) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = context_of("valid", version)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)

    def send(self, flights: int, share: float) -> None:
        """Send so many messages in full, and this share of the next one."""
        for number in range(flights + 1):
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
            flight = self._outgoing.read()
            if number == flights:
                self._socket.sendall(flight[: int(len(flight) * share)])
                return
            self._socket.sendall(flight)
            self._incoming.write(self._socket.recv(65_536))

    def leave(self, *, is_graceful: bool) -> None:
        if not is_graceful:
            reset = struct.pack("ii", 1, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        self._socket.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_graceful", [True, False])
async def test_a_client_may_leave_at_every_step_of_its_handshake(
    version: ssl.TLSVersion, is_graceful: bool
) -> None:
    async with running(whoami, tls=TlsAcceptor(server("required"), PATIENCE_S)) as broker:
        for flights in (0, 1):
            for share in (0.0, 0.02, 0.5, 0.99, 1.0):
                hanging = Hanging(broker.port, version)
                await asyncio.to_thread(hanging.send, flights, share)
                hanging.leave(is_graceful=is_graceful)
        await until(lambda: broker.metric("connection-count") == 0)
        assert broker.metric("connection-creation-total") == 10
        assert "CN=alice" in await name_of(broker, context_of("valid", version))


@asynccontextmanager
async def over_sasl(mode: ClientAuth) -> AsyncGenerator[Running]:
    """A listener of SASL over TLS, which asks for certificates by `mode`."""
    offered = {"PLAIN": OfferedMechanism(plain())}
    metrics = Metrics()
    sasl = SaslListener("SASL_SSL", offered, SaslLimits(), SaslMetrics(metrics), lambda: 0)
    tls = TlsAcceptor(server(mode), PATIENCE_S, "SASL_SSL")
    async with running(whoami, tls=tls, sasl=sasl) as broker:
        yield broker


@pytest.mark.parametrize(
    ("mode", "let_in"),
    [
        ("none", {"valid", "untrusted", "absent"}),
        ("requested", {"valid", "absent"}),
        ("required", {"valid"}),
    ],
)
async def test_where_sasl_follows_a_certificate_is_needed_but_gives_no_name(
    mode: ClientAuth, let_in: set[str]
) -> None:
    async def login(broker: Running, context: ssl.SSLContext) -> bytes:
        peer = await broker.connect(context)
        await peer.ask(handshake())
        assert read_token(bytes(4) + await peer.ask(authenticate())).error_code == 0
        return await peer.ask(metadata())

    async with over_sasl(mode) as broker:
        for certificate in ("valid", "untrusted", "absent"):
            context = context_of(certificate)
            if certificate in let_in:
                assert await login(broker, context) == b"User:alice"
                continue
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await login(broker, context)
