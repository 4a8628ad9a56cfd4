"""`tierlog`'s own commands over TLS, and the sentence for each way in which it fails."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.clients.network.tls import tls_advice
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.cli.client.command_run import Tierlog
from tierlog.tests.security.tls.certificates import (
    broker_certificate,
    person,
    write_authority,
    write_identity,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    write_authority(folder)
    write_authority(folder, "theirs")
    write_identity(folder, "broker", broker_certificate())
    write_identity(folder, "alice", person("alice"))
    write_identity(folder, "stranger", person("stranger", "theirs"))
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca-ours.pem"),
        "ssl.client.auth": "required",
    }
    with BrokerThread(folder / "data", properties) as running:
        assert running.broker is not None
        secure = next(e for e in running.broker.listeners.bound if e.name == "SSL")
        yield f"127.0.0.1:{secure.port}"


def stated(**values: object) -> list[str]:
    """Arguments that set client properties; `_` stands for a dot."""
    return [
        word
        for name, value in {"security_protocol": "SSL", **values}.items()
        for word in ("-X", f"{name.replace('_', '.')}={value}")
    ]


def test_records_go_to_a_topic_and_come_back(
    address: str,
    folder: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tierlog = Tierlog(capfdbinary, monkeypatch, address)
    librdkafkas = stated(
        ssl_ca_location=folder / "ca-ours.pem", ssl_certificate_location=folder / "alice.pem"
    )
    javas = stated(
        ssl_truststore_type="PEM",
        ssl_truststore_location=folder / "ca-ours.pem",
        ssl_keystore_type="PEM",
        ssl_keystore_location=folder / "alice.pem",
    )
    assert tierlog("produce", "letters", *librdkafkas, stdin=b"a\nb\n").code == 0
    assert tierlog("consume", "letters", "-e", *javas).out == b"a\nb\n"
    file = folder / "client.properties"
    lines = [word for word in javas if word != "-X"]
    file.write_text("\n".join([*lines, f"bootstrap.servers={address}"]))
    from_file = Tierlog(capfdbinary, monkeypatch, None)
    words = ("consume", "letters", "-e", "--command-config")
    assert from_file(*words, str(file)).out == b"a\nb\n"
    file.write_bytes(b"\xff")
    assert "is not UTF-8 text: save it as UTF-8" in from_file(*words, str(file)).err
    assert "absent cannot be read: No such file" in from_file(*words, "absent").err


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ssl_ca_location": "ca-theirs.pem"}, "the broker's certificate is not accepted"),
        ({"ssl_ca_location": "ca-ours.pem"}, "certificate required"),
        ({"ssl_ca_location": "nowhere.pem"}, "nowhere.pem cannot be read: No such file"),
        ({"ssl_truststore_location": "ca-ours.pem"}, "needs ssl.truststore.type=PEM"),
        (
            {"security_protocol": "PLAINTEXT", "ssl_ca_location": "ca-ours.pem"},
            "connections are in plain text: add -X security.protocol=SSL",
        ),
        ({"security_protocol": "SASL_SSL"}, "sasl.mechanism is missing"),
        (
            {"ssl_ca_location": "ca-theirs.pem"},
            "Name the authority that signed it with ssl.ca.location.",
        ),
        (
            {"ssl_ca_location": "ca-ours.pem"},
            "certificate required. Show one with ssl.certificate.location.",
        ),
        (
            {"ssl_ca_location": "ca-ours.pem", "ssl_certificate_location": "stranger.pem"},
            "Show a certificate that the broker trusts with ssl.certificate.location.",
        ),
        (
            {"security_protocol": "PLAINTEXT"},
            "; name another one with security.protocol.\n",
        ),
    ],
)
def test_a_connection_that_fails_is_one_plain_sentence(
    values: dict[str, str],
    words: str,
    address: str,
    folder: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    answer = Tierlog(capfdbinary, monkeypatch, address)("topic", "ls", *stated(**values))
    assert answer.code != 0
    assert words in answer.err
    assert "_ssl.c" not in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("verify_code", "advice"),
    [
        (10, "Give the broker a new certificate, or set the clock of this machine"),
        (62, "Connect by a name or address that the certificate has"),
        (64, "Connect by a name or address that the certificate has"),
        (20, "Name the authority that signed it with ssl.ca.location"),
    ],
)
def test_a_certificate_that_is_not_accepted_has_its_advice(verify_code: int, advice: str) -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code = verify_code
    assert tls_advice(error) == advice
