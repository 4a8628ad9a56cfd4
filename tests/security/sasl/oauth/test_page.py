"""What docs/security.md says of tokens, as it stands there."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tierlog.broker.config.config import config_warnings, read_config
from tierlog.clients.properties import parse_properties
from tierlog.security.sasl.settings import SignedTokens
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.house_rules import ROOT

PAGE = ROOT / "docs" / "security.md"


def blocks() -> list[dict[str, str]]:
    """The properties of the section, one after another."""
    _, _, section = PAGE.read_text().partition("### Tokens (OAUTHBEARER)")
    section = section.partition("\n### ")[0]
    found = re.findall(r"```properties\n(.*?)```", section, re.DOTALL)
    return [dict(parse_properties(each)) for each in found]


def test_the_broker_for_signed_tokens_can_be_read() -> None:
    tls = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_PLAINTEXT"}
    config = read_config(blocks()[0] | tls)
    (mechanism,) = config.sasl["SASL_SSL"].mechanisms
    assert isinstance(mechanism.tokens, SignedTokens)
    assert mechanism.tokens.audiences == ("kafka",)
    assert not [each for each in config_warnings(config) if "token" in each]


@pytest.mark.slow
def test_the_broker_and_the_client_of_a_test_without_an_issuer(tmp_path: Path) -> None:
    _, server, client = blocks()
    ports = {"listeners": re.sub(r":90\d\d", ":0", server["listeners"])}
    with BrokerThread(tmp_path / "data", server | ports) as running:
        assert running.broker is not None
        bound = {each.name: each.port for each in running.broker.listeners.bound}
        address = {"bootstrap.servers": f"127.0.0.1:{bound['SASL_PLAINTEXT']}"}
        producer = Producer(client | address)
        producer.produce("topic", b"value")
        assert producer.flush(30) == 0
