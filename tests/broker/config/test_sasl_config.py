"""The properties of listeners with SASL, and what refuses the start."""

import pytest

from tierlog.broker.config.config import BrokerConfig, config_warnings, read_config
from tierlog.clients.errors import ErrorCode, KafkaError

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hidden";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
JAAS = "listener.name.clients.plain.sasl.jaas.config"
BASE = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    JAAS: LOGIN,
}


def config(**more: str) -> BrokerConfig:
    return read_config({**BASE, **{name.replace("__", "."): text for name, text in more.items()}})


def refused(stated: dict[str, str]) -> str:
    with pytest.raises(KafkaError) as raised:
        read_config({**BASE, **stated})
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert "hidden" not in raised.value.message
    return raised.value.message


def test_a_listener_has_its_mechanisms_users_and_kafkas_bounds() -> None:
    read = config()
    assert list(read.sasl) == ["CLIENTS"]
    settings = read.sasl["CLIENTS"]
    (plain,) = settings.mechanisms
    assert (plain.name, plain.max_reauth_ms, list(plain.users)) == ("PLAIN", 0, ["alice"])
    assert plain.users["alice"].reveal() == "hidden"
    assert (settings.max_receive_bytes, settings.failure_delay_ms) == (524_288, 100)
    assert "hidden" not in repr(read.sasl)
    assert read.protocol_code("CLIENTS") == 2


def test_the_longest_prefix_wins() -> None:
    stated = {
        "connections.max.reauth.ms": "1",
        "listener.name.clients.connections.max.reauth.ms": "2",
        "listener.name.clients.scram-sha-256.connections.max.reauth.ms": "3",
        "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256, PLAIN",
        "listener.name.clients.sasl.server.max.receive.size": "1024",
        "listener.name.clients.scram-sha-256.sasl.jaas.config": SCRAM,
    }
    settings = read_config({**BASE, **stated}).sasl["CLIENTS"]
    by_name = {each.name: each.max_reauth_ms for each in settings.mechanisms}
    assert by_name == {"SCRAM-SHA-256": 3, "PLAIN": 2}
    assert settings.max_receive_bytes == 1024


def test_scram_needs_no_login_module() -> None:
    assert config(sasl__enabled__mechanisms="SCRAM-SHA-512").sasl["CLIENTS"].mechanisms


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms holds GSSAPI"),
        ({"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}, "callback.handler.class has to be set"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms"),
        ({JAAS: ""}, f"{JAAS} has to name the users of PLAIN"),
        ({JAAS: LOGIN.rstrip(";")}, f"{JAAS} cannot be read: it does not end with a semicolon"),
        ({JAAS: SCRAM}, "names ScramLoginModule, not PlainLoginModule"),
        ({JAAS: LOGIN.replace("Plain", "Jndi")}, "JndiLoginModule is not supported"),
        (
            {"listener.name.clients.plain.sasl.server.callback.handler.class": "x.Handler"},
            "sasl.server.callback.handler.class names a Java class",
        ),
        ({"listener.name.clients.plain.connections.max.reauth.ms": "soon"}, "max.reauth.ms"),
    ],
)
def test_what_cannot_be_obeyed_refuses_the_start(stated: dict[str, str], sentence: str) -> None:
    assert sentence in refused(stated)


def test_a_login_module_without_its_mechanism_lets_nobody_in() -> None:
    stated = {JAAS: "", "listener.name.clients.sasl.jaas.config": LOGIN, "sasl.jaas.config": LOGIN}
    assert "has to name the users of PLAIN" in refused(stated)


def test_what_a_listener_obeys_gives_no_warning() -> None:
    stated = {
        "listener.name.clients.plain.connections.max.reauth.ms": "60000",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
    }
    assert not config_warnings(read_config({**BASE, **stated}))
    idle = {"listener.name.clients.scram-sha-256.sasl.jaas.config": SCRAM}
    assert "scram-sha-256" in "".join(config_warnings(read_config({**BASE, **idle})))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sasl.enabled.mechanism", "sasl.enabled.mechanisms"),
        ("sasl.server.max.recieve.size", "sasl.server.max.receive.size"),
        (
            "listener.name.clients.connections.max.reauth.mss",
            "listener.name.clients.connections.max.reauth.ms",
        ),
    ],
)
def test_a_misspelt_protection_refuses_the_start(name: str, meant: str) -> None:
    assert f"{name} is not a property of Kafka or tierlog" in refused({name: "1"})
    assert f"did you mean {meant}?" in refused({name: "1"})
