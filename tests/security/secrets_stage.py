"""The broker of the story of secrets: its file with a secret in every form, and its clients."""

import socket
import struct
from pathlib import Path

from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.header import RequestHeader, encode_request_header
from tierlog.clients.protocol.schema import Message

from ..broker_process import RawClient
from .planted_secrets import PlantedSecrets
from .tls.certificates import (
    authority,
    broker_certificate,
    chain_text,
    encrypted_key_text,
    key_text,
    write_authority,
)
from .tls.pkcs12_stores import key_store

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
HANDLER = "sasl.server.callback.handler.class"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
PROVIDER = "org.apache.kafka.common.config.provider"


class Watched(RawClient):
    """A client that keeps all bytes that it receives."""

    answers = bytearray()

    def _receive(self, size: int) -> bytes:
        received = super()._receive(size)
        Watched.answers += received
        return received

    def drain(self) -> None:
        """Read until the broker closes or falls silent."""
        self.socket.settimeout(0.2)
        try:
            while piece := self.socket.recv(65536):
                Watched.answers += piece
        except OSError:
            pass

    def raw(self, request: Message, version: int, cut: int = 0) -> None:
        """Send a request, without its last bytes if some are `cut`."""
        header = RequestHeader(type(request).api_key, version, 1, "raw")
        body = encode_request_header(header) + encode_bytes(request, version)
        frame = struct.pack(">i", len(body)) + body
        self.socket.sendall(frame[: len(frame) - cut])


class Stage:
    """The broker of the story, and the secrets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.planted = PlantedSecrets()
        names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "P12")
        self.ports = {name: free_port() for name in names}
        self.status = free_port()
        self.file = folder / "server.properties"
        self.file.write_text("\n".join([*self._plain_lines(), *self._secret_lines()]))

    def _plain_lines(self) -> list[str]:
        at = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        return [
            f"listeners={at}",
            f"log.dirs={self.folder / 'data'}",
            f"tierlog.status.port={self.status}",
            "offsets.topic.num.partitions=1",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,P12:SSL,SASL_SSL:SASL_SSL,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms=PLAIN",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            f"listener.name.sasl_plaintext.oauthbearer.{HANDLER}={UNSECURED}",
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config="
            "OAuthBearerLoginModule required;",
            "connection.failed.authentication.delay.ms=0",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
            "config.providers=env,file,dir",
            f"config.providers.env.class={PROVIDER}.EnvVarConfigProvider",
            f"config.providers.file.class={PROVIDER}.FileConfigProvider",
            f"config.providers.dir.class={PROVIDER}.DirectoryConfigProvider",
        ]

    def _secret_lines(self) -> list[str]:
        text, sasl = self.planted.text, "listener.name.sasl_plaintext"
        store = self.folder / "secrets.properties"
        store.write_text(f"one={text('file provider')}\nother={text('neighbour in the file')}\n")
        (self.folder / "word").write_text(text("dir provider"))
        (self.folder / "unused-word").write_text(text("neighbour in the directory"))
        self.environment = {"TIERLOG_TEST_SECRET": text("env provider")}
        users = (
            f'user_alice="{text("jaas double quotes")}"',
            f"user_bob='{text('jaas single quotes')}'",
            f"user_carol={text('jaas bare word')}",
            f'user_dave="\\\\x22{text("jaas with an escape")}"',
            'user_env="${env:TIERLOG_TEST_SECRET}"',
            f'user_file="${{file:{store}:one}}"',
            f'user_dir="${{dir:{self.folder}:word}}"',
            f'username="broker" password="{text("jaas own password")}"',
        )
        return [
            f"{sasl}.plain.sasl.jaas.config={PLAIN_MODULE} required {' '.join(users)};",
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={PLAIN_MODULE} required"
            f' user_alice="{text("jaas over tls")}";',
            f'{sasl}.scram-sha-256.sasl.jaas.config={SCRAM_MODULE} required username="b"'
            f' password="{text("jaas of scram")}";',
            f'sasl.jaas.config={PLAIN_MODULE} required password="{text("jaas of nobody")}";',
            *self._tls_lines(),
            f"rsm.config.url=file://{self.folder / 'tier'}",
            f"rsm.config.option.secret={text('tier option')}",
            f"rsm.config.option.client_kwargs.aws_secret_access_key={text('tier nested option')}",
            f"tierlog.mount.old.option.token={text('option of a mount')}",
            f"tierlog.mount.old.url=memory://u:{text('password in the url of a mount')}@h/old",
            f"delegation.token.secret.key={text('delegation key')}",
            f"sasl.oauthbearer.client.credentials.client.secret={text('oauth client')}",
            f"sasl.oauthbearer.assertion.private.key.passphrase={text('oauth passphrase')}",
            f"my.reporter.password={text('unknown property')}",
            f"{sasl}.plain.sasl.jass.config={PLAIN_MODULE} user_x={text('misspelt property')};",
            f"listener.name.absent.ssl.keystore.password={text('of no listener')}",
            f"my.reporter.user {text('value after a blank')}",
            text("a line of its own"),
        ]

    def _tls_lines(self) -> list[str]:
        password = self.planted.text("key password")
        certificate = broker_certificate()
        stored = self.planted.key("key in a file", encrypted_key_text(certificate, password))
        (self.folder / "broker.pem").write_text(stored + chain_text(certificate))
        inline = self.planted.key("inline key", key_text(certificate))
        other = authority("ours").issue_cert("localhost", common_name="other")
        pasted = self.planted.key("key pasted without backslashes", key_text(other))
        word = self.planted.text("password of a key store")
        (self.folder / "broker.p12").write_bytes(key_store(certificate, [], word))
        return [
            "listener.name.p12.ssl.keystore.type=PKCS12",
            f"listener.name.p12.ssl.keystore.location={self.folder / 'broker.p12'}",
            f"listener.name.p12.ssl.keystore.password={word}",
            "ssl.keystore.type=PEM",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={write_authority(self.folder)}",
            f"listener.name.ssl.ssl.keystore.location={self.folder / 'broker.pem'}",
            f"listener.name.ssl.ssl.key.password={password}",
            f"listener.name.sasl_ssl.ssl.keystore.key={' '.join(inline.split(chr(10)))}",
            "listener.name.sasl_ssl.ssl.keystore.certificate.chain="
            + " ".join(chain_text(certificate).split("\n")),
            f"my.key={pasted}",
        ]

    def client(self, listener: str = "PLAINTEXT") -> Watched:
        return Watched(self.ports[listener])

    def page(self, path: str, headers: str = "") -> bytes:
        """What the status port answers, whatever the request is."""
        with socket.create_connection(("127.0.0.1", self.status), 20) as peer:
            request = f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n"
            peer.sendall(request.encode())
            answer = bytearray()
            while piece := peer.recv(65536):
                answer += piece
        return bytes(answer)
