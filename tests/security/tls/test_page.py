"""docs/security.md, followed word by word: its broker's file, and a client with its properties."""

import re
import textwrap
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.properties import parse_properties
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.house_rules import ROOT
from tierlog.tests.security.tls.certificates import (
    broker_certificate,
    person,
    write_authority,
    write_identity,
)

PAGE = (ROOT / "docs" / "security.md").read_text()


def block_after(words: str) -> str:
    """The indented block that follows these words."""
    anywhere = r"\s+".join(map(re.escape, words.split()))
    _, after = re.split(anywhere, PAGE, maxsplit=1)
    lines = after.partition("\n\n")[2].splitlines()
    block: list[str] = []
    for line in lines:
        if not line.startswith("    "):
            break
        block.append(line)
    return textwrap.dedent("\n".join(block))


@pytest.mark.slow
def test_the_pages_broker_serves_the_pages_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_authority(tmp_path).rename("ca.pem")
    write_identity(tmp_path, "broker", broker_certificate())
    write_identity(tmp_path, "client", person("alice"))
    plain, secure = str(free_port()), str(free_port())
    file = block_after("which only this machine reaches:")
    Path("server.properties").write_text(file.replace("9092", plain).replace("9093", secure))
    client = parse_properties(block_after("and with librdkafka"))
    assert block_after("A client's properties, in Java:").startswith("security.protocol=SSL")
    with BrokerProcess(["--config", "server.properties"], tmp_path) as broker:
        admin = AdminClient({**client, "bootstrap.servers": f"localhost:{secure}"})
        assert [each.port for each in admin.list_topics(timeout=20).brokers.values()] == [
            int(secure)
        ]
        assert broker.stop() == 0
    assert "WARNING" not in broker.log.read_text()
