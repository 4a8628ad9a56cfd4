"""How a node logs in to the others, as its file says, and what refuses the start."""

import re

import pytest

from tierlog.broker.config.config import BrokerConfig, config_warnings, read_config
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.tests.house_rules import ROOT

MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username=node password="hidden"'
SCRAM = f'{MODULES}.scram.ScramLoginModule required username=node password="hidden";'
CONTROL = "listener.name.control.plain.sasl.jaas.config"
NODES = "listener.name.nodes.scram-sha-256.sasl.jaas.config"
RLMM = "rlmm.config.remote.log.metadata.common.client."
MEMBER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093,2@localhost:9094,3@localhost:9095",
    "controller.listener.names": "CONTROL",
    "inter.broker.listener.name": "NODES",
    "listeners": "NODES://localhost:9092,CONTROL://localhost:9093",
    "listener.security.protocol.map": "NODES:SASL_PLAINTEXT,CONTROL:SASL_PLAINTEXT",
    "listener.name.control.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.nodes.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    CONTROL: f"{PLAIN} user_node=hidden;",
    NODES: SCRAM,
}
BROKER = {
    **{name: text for name, text in MEMBER.items() if "control.sasl.enabled" not in name},
    "process.roles": "broker",
    "node.id": "4",
    "listeners": "NODES://localhost:9092",
    CONTROL: f"{PLAIN};",
}
ALONE = {
    "listeners": "CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN} user_node=hidden;",
    "rsm.config.url": "memory://tier",
}
TIERED = {"rsm.config.url": "memory://tier"}


def read(base: dict[str, str], stated: dict[str, str]) -> BrokerConfig:
    """An empty value stands for a property that is not there."""
    merged = {**base, **stated}
    return read_config({name: text for name, text in merged.items() if text})


def names(config: BrokerConfig) -> dict[str, str]:
    return {listener: login.name for listener, login in config.logins.items()}


@pytest.mark.parametrize("file", [MEMBER, BROKER])
def test_a_node_logs_in_to_controllers_and_brokers(file: dict[str, str]) -> None:
    config = read(file, {})
    assert names(config) == {"CONTROL": "PLAIN", "NODES": "SCRAM-SHA-256"}
    exchange = config.logins["CONTROL"].begin(SystemEnvironment().random_uuid)
    assert exchange.first() == b"\0node\0hidden"
    # What it serves, it verifies; a broker has no listener for controllers.
    assert set(config.sasl) == ({"NODES", "CONTROL"} if file is MEMBER else {"NODES"})
    assert not [each for each in config_warnings(config) if "sasl" in each]
    assert "hidden" not in repr(config.logins)


@pytest.mark.parametrize(
    ("base", "stated", "sentence"),
    [
        (
            MEMBER,
            {"sasl.mechanism.controller.protocol": ""},
            "sasl.mechanism.controller.protocol is GSSAPI, with which no node here logs in to"
            " listener CONTROL: set it to one of PLAIN.",
        ),
        (
            MEMBER,
            {"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"},
            "it is OAUTHBEARER; set it to one of SCRAM-SHA-256.",
        ),
        (
            MEMBER,
            {"sasl.mechanism.inter.broker.protocol": "PLAIN"},
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when"
            " SASL is used for inter-broker communication",
        ),
        (
            MEMBER,
            {"listener.name.control.sasl.enabled.mechanisms": "SCRAM-SHA-256", CONTROL: ""},
            "sasl.mechanism.controller.protocol is PLAIN, with which no node here logs in",
        ),
        (
            BROKER,
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"},
            "cannot work with several controllers",
        ),
        (BROKER, {CONTROL: ""}, f"{CONTROL} has to hold username and password"),
        (BROKER, {CONTROL: PLAIN.replace("hidden", "") + ";"}, "has to hold username and password"),
        (BROKER, {CONTROL: PLAIN}, f"{CONTROL} cannot be read: it does not end"),
        (BROKER, {CONTROL: SCRAM}, f"{CONTROL} names ScramLoginModule, not PlainLoginModule"),
        (MEMBER, {NODES: ""}, f"{NODES} has to hold username and password"),
        (
            {**MEMBER, **TIERED},
            {f"{RLMM}security.protocol": "SASL_SSL"},
            "security.protocol=SASL_SSL",
        ),
        (
            {**MEMBER, **TIERED},
            {f"{RLMM}sasl.jaas.config": SCRAM},
            f"{RLMM}sasl.mechanism is GSSAPI, with which",
        ),
        (
            {**MEMBER, **TIERED},
            {f"{RLMM}sasl.mechanism": "SCRAM-SHA-256", f"{RLMM}sasl.jaas.config": SCRAM[:-1]},
            f"{RLMM}sasl.jaas.config cannot be read",
        ),
        (ALONE, {}, "sasl.mechanism.inter.broker.protocol must be included in"),
    ],
)
def test_what_cannot_work_refuses_the_start(
    base: dict[str, str], stated: dict[str, str], sentence: str
) -> None:
    with pytest.raises(KafkaError) as raised:
        read(base, stated)
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert sentence in raised.value.message
    assert "hidden" not in raised.value.message


def test_scram_is_for_a_single_controller() -> None:
    stated = {
        "controller.quorum.voters": "1@localhost:9093",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        "listener.name.control.scram-sha-512.sasl.jaas.config": SCRAM,
    }
    assert names(read(BROKER, stated))["CONTROL"] == "SCRAM-SHA-512"


def test_the_tiers_metadata_is_reached_as_other_brokers_are() -> None:
    config = read(MEMBER, TIERED)
    assert config.metadata_login is None
    own = {
        f"{RLMM}security.protocol": "SASL_PLAINTEXT",
        f"{RLMM}sasl.mechanism": "SCRAM-SHA-256",
        f"{RLMM}sasl.jaas.config": SCRAM.replace("=node", "=tier"),
    }
    login = read(MEMBER, {**TIERED, **own}).metadata_login
    assert login is not None
    assert b"n=tier," in login.begin(SystemEnvironment().random_uuid).first()


def test_a_broker_alone_logs_in_to_itself_for_the_tiers_metadata() -> None:
    config = read(ALONE, {"sasl.mechanism.inter.broker.protocol": "PLAIN"})
    assert not config.logins
    assert config.metadata_login is not None
    assert config.metadata_login.name == "PLAIN"
    untiered = read(ALONE, {"rsm.config.url": ""})
    assert (untiered.logins, untiered.metadata_login) == ({}, None)


def test_the_listener_between_brokers_may_be_named_by_its_protocol() -> None:
    stated = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    }
    assert set(read_config(stated).sasl) == {"SASL_PLAINTEXT"}


def test_a_broker_alone_may_have_clients_with_tokens_only() -> None:
    """Kafka's mechanism of brokers must be enabled there, but nobody logs in with it."""
    module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
    handler = "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    own = "listener.name.clients.oauthbearer."
    stated = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{own}sasl.jaas.config": module,
        f"{own}sasl.server.callback.handler.class": f"{MODULES}.oauthbearer.{handler}",
    }
    assert names(read_config(stated)) == {}
    with pytest.raises(KafkaError, match="with which no node here logs in to listener CLIENTS"):
        read_config({**stated, **TIERED})


def test_the_lines_of_the_documentation_are_for_such_a_node() -> None:
    page = (ROOT / "docs/security.md").read_text()
    blocks = re.findall(r"```properties\n(.*?)```", page, re.DOTALL)
    (block,) = [each for each in blocks if "sasl.mechanism.controller.protocol=" in each]
    lines = block.replace("${env:NODE_PASSWORD}", "x").splitlines()
    stated = dict(line.split("=", 1) for line in lines)
    own = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093,2@localhost:9094",
        "listeners": "NODES://localhost:9092,CONTROL://localhost:9093",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "broker.pem",
    }
    config = read_config({**own, **stated})
    assert names(config) == {"CONTROL": "PLAIN", "NODES": "SCRAM-SHA-512"}
    assert {config.protocol_name(each) for each in config.sasl} == {"SASL_SSL"}
    alone = {**own, **stated, "process.roles": "broker", "node.id": "3"}
    alone["listeners"] = "NODES://localhost:9092"
    alone[CONTROL] = alone[CONTROL].replace(' user_node="x"', "")
    del alone["listener.name.control.sasl.enabled.mechanisms"]
    assert names(read_config(alone)) == names(config)
