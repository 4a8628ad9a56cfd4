"""docs/security.md word by word: the secured broker of its beginning, and a user with rights.

The page's TLS listener is in tests/broker/security/tls/test_page.py.
"""

import re
import shlex
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tierlog.bench.probe import free_port
from tierlog.broker.command_line import full_parser, run
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.conformance.many_tools import ManyTools
from tierlog.tests.house_rules import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
SECTION = PAGE.partition("## A secured broker")[2].partition("\n## ")[0]
COMMANDS = [
    shlex.split(block) for block in re.findall(r"^    (\S(?:.*\\\n)*.*)", SECTION, re.MULTILINE)
]


def test_every_file_that_is_written_is_explained(tmp_path: Path) -> None:
    assert run(["secure", "init", str(tmp_path / "dev")], 0) == 0
    table = "".join(line.split("|")[1] for line in SECTION.splitlines() if line.startswith("| `"))
    written = {each.name for each in (tmp_path / "dev").iterdir()}
    assert set(re.findall(r"`([\w.]+)`", table)) == written


def test_the_page_begins_with_three_commands() -> None:
    first, *ours = COMMANDS[:3]
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
    _, init, serve, *tools = COMMANDS
    assert run([*init[1:], "--port", str(port)], 0) == 0
    Path("dev/alice").write_text("SCRAM-SHA-512=password=a-password-of-hers")
    with ManyTools() as kafka, BrokerProcess(serve[2:], tmp_path) as broker:
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
