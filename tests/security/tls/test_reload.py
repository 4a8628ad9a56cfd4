"""A listener's certificate changes while it runs; one that will not do is refused."""

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest
import trustme
from confluent_kafka import KafkaException

from tierlog.broker.broker import StartError
from tierlog.clients.errors import KafkaError
from tierlog.replication.control.configs.alter_configs import ConfigChange, ConfigOperation
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.security.tls.certificates import (
    authority,
    client_context,
    key_text,
    person,
    write_authority,
    write_identity,
)
from tierlog.tests.security.tls.pkcs12_stores import PASSWORD, key_store

admins = import_module("confluent_kafka.admin")  # its types name too little

LOCATION = "listener.name.ssl.ssl.keystore.location"

TRUST = "listener.name.ssl.ssl.truststore.location"


def answer_on(connection: ssl.SSLSocket) -> None:
    """Request the versions, and read the answer."""
    connection.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff")
    content = b""
    while len(content) < 4 or len(content) < 4 + int.from_bytes(content[:4], "big"):
        received = connection.recv(65_536)
        if not received:
            raise ConnectionResetError
        content += received
    assert content[4:8] == b"\x00\x00\x00\x07"


class Listener:
    """A broker with a plain listener for the administrator, and one with TLS."""

    def __init__(self, broker: BrokerThread, folder: Path) -> None:
        assert broker.broker is not None
        assert broker.broker.context is not None
        self.context = broker.broker.context
        self.folder = folder
        self._port = next(e.port for e in broker.broker.listeners.bound if e.name == "SSL")
        self._admin = admins.AdminClient({"bootstrap.servers": broker.bootstrap})

    def connect(self) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", self._port), 20)
        return client_context().wrap_socket(raw, server_hostname="localhost")

    def answered(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        """A connection on which a request has been answered."""
        raw = socket.create_connection(("127.0.0.1", self._port), 20)
        try:
            connection = context.wrap_socket(raw, server_hostname="localhost")
        except BaseException:
            raw.close()
            raise
        try:
            answer_on(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def serial(self) -> int:
        """The serial number of the certificate that a new connection sees."""
        with self.connect() as connection:
            shown = connection.getpeercert()
            assert shown is not None
            return int(str(shown["serialNumber"]), 16)

    def alter(self, values: Mapping[str, str]) -> str:
        """Alter the broker's configuration; returns the objection, or nothing."""
        entries = [
            admins.ConfigEntry(name, text, incremental_operation=admins.AlterConfigOpType.SET)
            for name, text in values.items()
        ]
        resource = admins.ConfigResource(
            admins.ResourceType.BROKER, "0", incremental_configs=entries
        )
        (done,) = self._admin.incremental_alter_configs([resource]).values()
        try:
            done.result(20)
        except KafkaException as error:
            return str(error.args[0].str())
        return ""


def issued(*names: str, owner: str = "broker") -> trustme.LeafCert:
    return authority("ours").issue_cert(
        *(names or ("127.0.0.1", "localhost")), common_name=owner, organization_unit_name="tests"
    )


def serial_of(certificate: trustme.LeafCert) -> int:
    from cryptography import x509

    pem = certificate.cert_chain_pems[0].bytes()
    return x509.load_pem_x509_certificate(pem).serial_number


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    write_identity(tmp_path, "first", issued())
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "first.pem"),
    }
    with BrokerThread(tmp_path / "data", properties) as running:
        yield Listener(running, tmp_path)


@pytest.mark.slow
def test_new_connections_see_the_new_certificate_and_open_ones_go_on(listener: Listener) -> None:
    before = listener.serial()
    with listener.connect() as still_open:
        new = issued()
        path = write_identity(listener.folder, "second", new)
        assert listener.alter({LOCATION: str(path)}) == ""
        assert listener.serial() == serial_of(new) != before
        answer_on(still_open)


@pytest.mark.slow
def test_the_same_path_is_read_again_if_its_file_has_changed(listener: Listener) -> None:
    """First as it was, in PEM; then in another format, with a password."""
    path, new = listener.folder / "first.pem", issued()
    write_identity(listener.folder, "first", new)
    os.utime(path, (2_000_000_000, 2_000_000_000))
    assert listener.alter({LOCATION: str(path)}) == ""
    assert listener.serial() == serial_of(new)
    path, new = listener.folder / "third.p12", issued()
    path.write_bytes(key_store(new, []))
    store = "listener.name.ssl.ssl.keystore"
    changes = {f"{store}.type": "PKCS12", LOCATION: str(path), f"{store}.password": "guess"}
    assert "its password does not open it" in listener.alter(changes)
    assert listener.serial() != serial_of(new)
    assert listener.alter({**changes, f"{store}.password": PASSWORD}) == ""
    assert listener.serial() == serial_of(new)


@pytest.mark.long
def test_a_start_uses_the_altered_stores_or_none(tmp_path: Path) -> None:
    """The file's trust store would let in whom the altered one keeps out."""
    write_authority(tmp_path)
    narrower = tmp_path / "narrower.pem"
    narrower.write_bytes((tmp_path / "ca-ours.pem").read_bytes())
    write_identity(tmp_path, "first", issued())
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "first.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca-ours.pem"),
        "ssl.client.auth": "required",
    }
    with BrokerThread(tmp_path / "data", properties) as running:
        listener = Listener(running, tmp_path)
        trust = "listener.name.ssl.ssl.truststore.location"
        assert listener.alter({trust: str(narrower)}) == ""
    with BrokerThread(tmp_path / "data", properties):
        pass
    narrower.unlink()
    with pytest.raises(StartError, match=r"narrower\.pem cannot be read"):
        BrokerThread(tmp_path / "data", properties).__enter__()


@pytest.mark.long
def test_a_certificate_that_will_not_do_is_refused_and_the_old_one_stays(
    listener: Listener,
) -> None:
    before = listener.serial()
    folder = listener.folder
    other_owner = write_identity(folder, "owner", issued(owner="other"))
    fewer_names = write_identity(folder, "names", issued("127.0.0.1"))
    (folder / "damaged.pem").write_text(key_text(issued()))
    ca = write_authority(folder)
    trust = "listener.name.ssl.ssl.truststore"
    for values, words in (
        ({LOCATION: str(other_owner)}, "ssl.allow.dn.changes=true"),
        ({LOCATION: str(fewer_names)}, "ssl.allow.san.changes=true"),
        ({LOCATION: str(folder / "damaged.pem")}, "has no certificate"),
        ({LOCATION: str(folder / "nowhere.pem")}, "cannot be read"),
        ({f"{trust}.type": "PEM", f"{trust}.location": str(ca)}, "but not added or removed"),
        ({"listener.name.ssl.ssl.client.auth": "required"}, "cannot change"),
        ({"ssl.keystore.location": str(other_owner)}, "cannot change"),
        ({LOCATION.replace(".ssl.ssl.", ".plaintext.ssl."): "x"}, "no listener plaintext with TLS"),
    ):
        assert words in listener.alter(values)
        assert listener.serial() == before
    change = ConfigChange(LOCATION, ConfigOperation.SET, str(other_owner))
    with pytest.raises(KafkaError, match="default cluster level"):
        listener.context.dynamic_config.check(
            listener.context.controller.image, "", [change], False
        )


@pytest.mark.long
def test_another_authority_may_be_trusted_without_a_restart(tmp_path: Path) -> None:
    write_identity(tmp_path, "first", issued())
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "first.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(write_authority(tmp_path)),
        "ssl.client.auth": "required",
    }
    ours, theirs = client_context(person("alice")), client_context(person("eve", "theirs"))
    with BrokerThread(tmp_path / "data", properties) as running:
        listener = Listener(running, tmp_path)
        with listener.answered(ours) as still_open:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                listener.answered(theirs)
            location = {TRUST: str(write_authority(tmp_path, "theirs"))}
            assert listener.alter(location) == ""
            listener.answered(theirs).close()
            with pytest.raises((ssl.SSLError, ConnectionError)):
                listener.answered(ours)
            # Who is in stays in.
            answer_on(still_open)
