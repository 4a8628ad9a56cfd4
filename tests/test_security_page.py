"""docs/security.md word by word: its secured broker, users with SASL, passwords in files.

The page's TLS listener is in tests/security/tls/test_page.py, its access control in
tests/conformance/test_acls_against_kafka.py.
"""

import re
import shlex
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.requests.probe import free_port
from tierlog.broker.config.tls_listeners import tls_listeners
from tierlog.cli.command_line import full_parser, run
from tierlog.cli.configuration import stated_configuration
from tierlog.clients.errors import KafkaError as KafkaException
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.conformance.many_tools import ManyTools
from tierlog.tests.house_rules import ROOT
from tierlog.tests.security.tls.certificates import broker_certificate
from tierlog.tests.security.tls.pkcs12_stores import key_store

PAGE = (ROOT / "docs" / "security.md").read_text()
SECTION = PAGE.partition("## A secured broker")[2].partition("\n## ")[0]
SASL = PAGE.partition("\n## SASL")[2].partition("\n### ")[0]
SCRAM = PAGE.partition("\n### Users with SCRAM")[2].partition("\n### ")[0]


def commands_of(section: str) -> list[list[str]]:
    """The indented commands of a section, each of which may go on after a backslash."""
    texts = re.findall(r"^    (\S(?:.*\\\n)*.*)", section, re.MULTILINE)
    return [shlex.split(each.replace("\\\n", "")) for each in texts]


def files_of(section: str) -> list[str]:
    """The properties files of a section."""
    return re.findall(r"^```properties\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


COMMANDS = commands_of(SECTION)


def test_every_file_that_is_written_is_explained(tmp_path: Path) -> None:
    assert run(["secure", "init", str(tmp_path / "dev")], 0) == 0
    table = "".join(line.split("|")[1] for line in SECTION.splitlines() if line.startswith("| `"))
    written = {each.name for each in (tmp_path / "dev").iterdir()}
    assert set(re.findall(r"`([\w.]+)`", table)) == written


def test_the_page_begins_with_three_commands() -> None:
    first, *ours = COMMANDS[:4]
    assert first == ["pip", "install", "cryptography"]
    for words in ours:
        assert words[0] == "tierlog"
        full_parser().parse_args(words[1:])


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_a_user_of_the_page_has_the_rights_that_the_page_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    port = free_port()
    _, init, serve, own, *tools = COMMANDS
    assert run([*init[1:], "--port", str(port)], 0) == 0
    Path("dev/alice").write_text("SCRAM-SHA-512=password=a-password-of-hers")
    with ManyTools() as kafka, BrokerProcess(serve[2:], tmp_path) as broker:
        assert run(own[1:], 0) == 0
        for tool, *words in tools:
            words = [word.replace("9093", str(port)) for word in words]
            said = kafka.run(tool.removesuffix(".sh"), *words)
            assert said.code == 0, said.text
        alice = Producer(
            {
                "bootstrap.servers": f"localhost:{port}",
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": "dev/ca.pem",
                "sasl.mechanisms": "SCRAM-SHA-512",
                "sasl.username": "alice",
                "sasl.password": "a-password-of-hers",
                "log_level": 0,
            }
        )
        outcomes: dict[str, int | None] = {}
        for topic in ("orders", "bills"):
            alice.produce(
                topic,
                b"a record",
                on_delivery=lambda error, record: outcomes.update(
                    {record.topic() or "": error.code() if error else None}
                ),
            )
        assert alice.flush(60) == 0
        assert outcomes == {"orders": None, "bills": KafkaError.TOPIC_AUTHORIZATION_FAILED}
        assert broker.stop() == 0


def test_a_password_of_a_key_store_comes_from_a_file(tmp_path: Path) -> None:
    (file,) = files_of(PAGE.partition("## Passwords in files")[2].partition("\n## ")[0])
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "broker.p12").write_bytes(key_store(broker_certificate(), [], "hush"))
    (secrets / "keystore-password").write_text("hush\n")
    path = tmp_path / "server.properties"
    path.write_text(file.replace("/run/secrets", str(secrets)))
    listeners = tls_listeners(stated_configuration(str(path), []))
    assert listeners is not None
    assert listeners.acceptors["SSL"].current.subject.startswith("CN=broker,")
    path.write_text(path.read_text().replace("keystore-password", "other-password"))
    with pytest.raises(KafkaException, match="other-password cannot be read"):
        stated_configuration(str(path), [])


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_users_of_plain_and_scram_are_those_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADMIN_PASSWORD", "of-the-admin")
    ports = {"9092": str(free_port()), "9094": str(free_port())}

    def here(text: str) -> str:
        return re.sub("909[24]", lambda match: ports[match[0]], text)

    server, admin = files_of(SASL)
    Path("server.properties").write_text(here(server))
    Path("admin.properties").write_text(admin.replace("...", "of-the-admin"))
    Path("alice").write_text("SCRAM-SHA-256=password=of-alice")
    commands = commands_of(SASL) + commands_of(SCRAM)
    serve = next(words for words in commands if words[:2] == ["tierlog", "serve"])
    tools = [words for words in commands if words[0].endswith(".sh")]
    with ManyTools() as kafka, BrokerProcess(serve[2:], tmp_path) as broker:
        said = [kafka.run(each[0].removesuffix(".sh"), *map(here, each[1:])) for each in tools]
        assert [each.code for each in said] == [0, 0], said
        assert "SCRAM-SHA-256=iterations=4096" in said[1].out
        alice = AdminClient(
            {
                "bootstrap.servers": f"localhost:{ports['9094']}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "sasl.password": "of-alice",
                "log_level": 0,
            }
        )
        assert len(alice.list_topics(timeout=30).brokers) == 1
        assert broker.stop() == 0
    assert "WARNING" not in broker.log.read_text()
    Path("server.properties").write_text(here(server).replace("log.dirs=data", "log.dirs=other"))
    form = next(words for words in commands if words[:2] == ["tierlog", "format"])
    assert run([each.replace("$(tierlog random-uuid)", "an-id") for each in form[1:]], 0) == 0
