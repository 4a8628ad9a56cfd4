"""`tierlog`'s own commands log in by SASL, and the sentence for each way in which that fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.harness.requests.probe import free_port
from tierlog.cli.command_line import run
from tierlog.tests.broker_process import BrokerProcess, BrokerThread
from tierlog.tests.cli.client.command_run import Tierlog
from tierlog.tests.cli.formatted_node import Node
from tierlog.tests.security.tls.certificates import (
    broker_certificate,
    write_authority,
    write_identity,
)

MODULES = "org.apache.kafka.common.security"
USER = {"sasl.username": "alice", "sasl.password": "hidden"}
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **USER}
JAAS = f"{MODULES}.plain.PlainLoginModule required username=alice password=hidden;"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sasl-commands")
    write_authority(folder)
    write_identity(folder, "broker", broker_certificate())
    return folder


@pytest.fixture(scope="module")
def addresses(folder: Path) -> Iterator[dict[str, str]]:
    node = Node(folder)
    user = "SCRAM-SHA-512=[name=alice,password=hidden]"
    assert node.format("--add-scram", user) == 0
    properties = {
        "node.id": "1",
        "log.dirs": ",".join(map(str, node.log_dirs)),
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "connection.failed.authentication.delay.ms": "0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        login = f"{MODULES}.plain.PlainLoginModule required user_alice=hidden;"
        properties[f"listener.name.{name}.plain.sasl.jaas.config"] = login
    with BrokerThread(folder, properties) as running:
        assert running.broker is not None
        bound = running.broker.listeners.bound
        yield {each.name: f"127.0.0.1:{each.port}" for each in bound}


def stated(values: dict[str, str]) -> list[str]:
    """Arguments that set client properties; one without a value is left out."""
    words = [f"{name}={value}" for name, value in values.items() if value]
    return [part for word in words for part in ("-X", word)]


def test_records_go_to_a_topic_and_come_back(
    addresses: dict[str, str],
    folder: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secure = Tierlog(capfdbinary, monkeypatch, addresses["SASL_SSL"])
    librdkafkas = stated(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "ssl.ca.location": str(folder / "ca-ours.pem"),
            **USER,
        }
    )
    assert secure("produce", "letters", *librdkafkas, stdin=b"a\nb\n").code == 0
    plain = Tierlog(capfdbinary, monkeypatch, addresses["SASL_PLAINTEXT"])
    javas = stated({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"})
    words = ("consume", "letters", "-e", *javas, "-X", f"sasl.jaas.config={JAAS}")
    assert plain(*words).out == b"a\nb\n"


@pytest.mark.parametrize(
    ("values", "code", "words"),
    [
        ({"sasl.password": "wrong"}, 1, "Authentication failed: Invalid username or password"),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "eve"},
            1,
            "due to invalid credentials with SASL mechanism SCRAM-SHA-512",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-256"},
            1,
            "has not enabled SCRAM-SHA-256; its mechanisms are PLAIN, SCRAM-SHA-512",
        ),
        ({"sasl.mechanism": ""}, 2, "sasl.mechanism is missing: it is one of PLAIN, SCRAM"),
        ({"sasl.mechanism": "GSSAPI"}, 2, "sasl.mechanism=GSSAPI is not one of PLAIN, SCRAM"),
        ({"sasl.password": ""}, 2, "needs sasl.username and sasl.password, or sasl.jaas.config"),
        ({"security.protocol": "SASL_PLAIN"}, 2, "none of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({"security.protocol": ""}, 2, "have no login: add -X security.protocol=SASL_PLAINTEXT"),
        ({"security.protocol": "SSL"}, 2, "have no login: add -X security.protocol=SASL_SSL"),
        ({"ssl.ca.location": "x.pem"}, 2, "in plain text: add -X security.protocol=SASL_SSL"),
        ({"sasl.jaas.config": JAAS}, 2, "beside sasl.username or sasl.password"),
        (
            {"sasl.username": "", "sasl.password": "", "sasl.jaas.config": JAAS[:-1]},
            2,
            "sasl.jaas.config cannot be read: it does not end with a semicolon",
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "",
                "sasl.password": "",
                "sasl.jaas.config": JAAS,
            },
            2,
            "sasl.jaas.config names PlainLoginModule, but SCRAM-SHA-512 has ScramLoginModule",
        ),
    ],
)
def test_a_login_that_fails_is_one_plain_sentence(
    values: dict[str, str],
    code: int,
    words: str,
    addresses: dict[str, str],
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tierlog = Tierlog(capfdbinary, monkeypatch, addresses["SASL_PLAINTEXT"])
    answer = tierlog("topic", "ls", *stated({**PLAIN, **values}))
    assert words in answer.err
    assert answer.code == code
    assert "hidden" not in answer.err
    assert answer.err.count("\n") == 1


def test_a_login_at_a_listener_without_sasl_says_so(
    addresses: dict[str, str],
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tierlog = Tierlog(capfdbinary, monkeypatch, addresses["PLAINTEXT"])
    assert "the listener has no SASL" in tierlog("topic", "ls", *stated(PLAIN)).err


@pytest.mark.slow
def test_the_file_of_a_secured_broker_is_for_our_commands_too(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "dev"
    assert run(["secure", "init", str(made), "--port", str(free_port())], 0) == 0
    tierlog = Tierlog(capfdbinary, monkeypatch, None)
    file = ("--command-config", str(made / "client.properties"))
    with BrokerProcess(["--config", str(made / "server.properties")], tmp_path) as broker:
        assert tierlog("produce", "letters", *file, stdin=b"a\n").code == 0
        assert tierlog("consume", "letters", "-e", *file).out == b"a\n"
        assert broker.stop() == 0
