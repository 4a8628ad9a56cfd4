"""A file that asks for protection which is not served is refused; what has no effect is named."""

from pathlib import Path

import pytest

from tierlog.broker.config.config import config_warnings, dev_properties, read_config
from tierlog.broker.config.config_safety import open_listener_warnings
from tierlog.broker.config.config_values import ConfigValues
from tierlog.broker.config.settings import cleaner_config
from tierlog.clients.errors import ErrorCode, KafkaError

TWO_LISTENERS = {
    "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
}


def refusal(stated: dict[str, str]) -> str:
    with pytest.raises(KafkaError) as caught:
        read_config(stated)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert "\n" not in caught.value.message
    return caught.value.message


def warnings_of(stated: dict[str, str]) -> list[str]:
    return config_warnings(read_config(stated))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "org.example.Acls"),
        (
            "listener.name.plaintext.authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        ("ssl.client.auth", "required"),
        ("ssl.client.auth", "requested"),
        ("security.inter.broker.protocol", "SASL_SSL"),
        ("create.topic.policy.class.name", "org.example.Policy"),
        ("alter.config.policy.class.name", "org.example.Policy"),
        ("client.quota.callback.class", "org.example.Quotas"),
        ("principal.builder.class", "org.example.Principals"),
        ("listener.name.plaintext.ssl.client.auth", "required"),
        ("listener.name.plaintext.principal.builder.class", "org.example.Principals"),
        ("listener.name.plaintext.max.connections", "10"),
        ("listener.name.plaintext.max.connection.creation.rate", "10"),
        ("rlmm.config.remote.log.metadata.common.client.security.protocol", "SASL_SSL"),
    ],
)
def test_protection_that_is_not_served_refuses_the_start(name: str, value: str) -> None:
    stated = {**dev_properties(), name: value}
    message = refusal(stated)
    assert message.startswith(f"{name}={value} ")
    assert "remove the property" in message or "set max.connection" in message


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.OUTSIDE.ssl.client.auth",
        "listener.name.Outside.ssl.truststore.location",
        "listener.name.outside.SCRAM-SHA-256.connections.max.reauth.ms",
        "listener.name.OUTSIDE.sasl.enabled.mechanisms",
    ],
)
def test_a_protection_in_capitals_refuses_the_start(name: str) -> None:
    stated = {
        "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "broker.pem",
    }
    read_config(stated)
    message = refusal({**stated, name: "0"})
    assert message == (
        f"{name} has no effect, because it is not in lower case: write {name.lower()}."
    )


def test_super_users_without_an_authorizer_are_no_protection() -> None:
    stated = {**dev_properties(), "super.users": "User:ANONYMOUS"}
    assert warnings_of(stated) == [
        "super.users has no effect without authorizer.class.name: everybody may do everything."
    ]
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert not warnings_of({**stated, "authorizer.class.name": authorizer})


def test_certificates_for_all_listeners_are_not_asked_for_beside_sasl() -> None:
    stated = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,SASL_SSL://127.0.0.1:9093",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "broker.pem",
        "ssl.client.auth": "required",
    }
    assert read_config(stated).tls["SASL_SSL"].client_auth == "none"
    assert warnings_of(stated) == [
        "ssl.client.auth=required has no effect on listener SASL_SSL, whose clients prove who they"
        " are with SASL: to ask them for certificates as well, set"
        " listener.name.sasl_ssl.ssl.client.auth."
    ]
    assert not warnings_of({**stated, "listener.name.sasl_ssl.ssl.client.auth": "required"})


def test_protection_that_is_switched_off_is_no_reason_to_refuse() -> None:
    builder = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    off = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "ssl.client.auth": "none",
        "security.inter.broker.protocol": "PLAINTEXT",
        "principal.builder.class": builder,
        "listener.name.plaintext.ssl.client.auth": "none",
        "rlmm.config.remote.log.metadata.common.client.security.protocol": "PLAINTEXT",
    }
    read_config({**dev_properties(), **off})


def test_two_ways_to_name_the_listener_between_brokers_are_refused_as_by_kafka() -> None:
    stated = {"inter.broker.listener.name": "PLAINTEXT"}
    message = refusal({**stated, "security.inter.broker.protocol": "PLAINTEXT"})
    assert message == (
        "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
    )


@pytest.mark.parametrize(
    ("protocols", "sentence"),
    [
        ("PLAINTEXT:PLAINTEXT,PLAINTEXT:SSL", "lists listener PLAINTEXT twice"),
        ("PLAINTEXT:PLAINTEXT,SSL:BOGUS", "Invalid security protocol `BOGUS` defined in"),
        ("PLAINTEXT", "holds PLAINTEXT, which is not NAME:PROTOCOL"),
    ],
)
def test_a_protocol_map_that_is_not_clear_is_refused(protocols: str, sentence: str) -> None:
    assert sentence in refusal({"listener.security.protocol.map": protocols})


def test_a_name_that_the_protocol_map_repeats_with_one_protocol_is_fine() -> None:
    read_config({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PLAINTEXT:PLAINTEXT"})


def test_a_property_of_a_listener_without_effect_is_named() -> None:
    stated = {
        **TWO_LISTENERS,
        "listener.name.inside.connections.max.idle.ms": "5000",
        "listener.name.inside.plain.sasl.jaas.config": "secret",
        "listener.name.inside.ssl.keystore.location": "/etc/key",
    }
    assert warnings_of(stated) == [
        "3 of Kafka's properties have no effect here: listener.name.inside.connections.max.idle.ms,"
        " listener.name.inside.plain.sasl.jaas.config, listener.name.inside.ssl.keystore.location"
    ]


def test_a_listener_that_there_is_not_is_named() -> None:
    assert warnings_of({**TWO_LISTENERS, "listener.name.insid.ssl.protocol": "TLSv1.3"}) == [
        "listener.name.insid.ssl.protocol has no effect: listener insid is not in listeners."
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ssl.keystore.loction", "; did you mean ssl.keystore.location?"),
        ("sasl.enabled.mechanism", "; did you mean sasl.enabled.mechanisms?"),
        (
            "listener.name.inside.max.conections",
            "; did you mean listener.name.inside.max.connections?",
        ),
        ("rsm.config.ulr", "; did you mean rsm.config.url?"),
        (
            "rlmm.config.remote.log.metadata.topic.num.partition",
            "; did you mean rlmm.config.remote.log.metadata.topic.num.partitions?",
        ),
        ("log4j.rootLogger", "."),
    ],
)
def test_a_misspelt_name_is_reported_whatever_it_begins_with(name: str, hint: str) -> None:
    assert warnings_of({**TWO_LISTENERS, name: "INFO"}) == [f"Unknown property {name}{hint}"]


def test_a_value_that_is_not_a_number_is_none_of_a_ratio() -> None:
    for name in ("log.cleaner.min.cleanable.ratio", "log.cleaner.io.buffer.load.factor"):
        assert refusal({name: "NaN"}).startswith(f"Invalid value NaN for configuration {name}")


def test_a_load_factor_that_leaves_no_room_for_keys_is_refused() -> None:
    name = "log.cleaner.io.buffer.load.factor"
    for value in ("0", "-1", "1.5", "Infinity"):
        assert f"for configuration {name}: Value must be" in refusal({name: value})


def test_a_cleaner_buffer_beyond_two_gibibytes_is_bounded_as_kafka_bounds_it() -> None:
    stated = {"log.cleaner.dedupe.buffer.size": str(1 << 62)}
    assert cleaner_config(ConfigValues(stated)).dedupe_buffer_size == (1 << 31) - 1
    assert warnings_of(stated) == [
        "Cannot use more than 2G of cleaner buffer space per cleaner thread, ignoring excess"
        " buffer space of log.cleaner.dedupe.buffer.size."
    ]


def test_no_connections_at_all_are_allowed_only_beside_exceptions_as_by_kafka() -> None:
    assert "can be set to zero only if" in refusal({"max.connections.per.ip": "0"})
    read_config({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"})


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"offsets.topic.compression.codec": "99"}, "Unknown compression type id: 99"),
        ({"replica.lag.time.max.ms": "-1"}, "replica.lag.time.max.ms"),
        ({"connections.max.idle.ms": "0"}, "connections.max.idle.ms"),
        ({"controller.listener.names": ""}, "must not be empty"),
    ],
)
def test_what_kafka_refuses_at_its_start_is_refused(stated: dict[str, str], sentence: str) -> None:
    assert sentence in refusal(stated)


def test_nodes_without_a_name_are_warned_of_unless_they_are_super_users(tmp_path: Path) -> None:
    """A broker is a client of its own tier's metadata, and would wait for ever."""
    stated = {
        **dev_properties(str(tmp_path)),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    sentence = (
        "Nodes connect to PLAINTEXT in plain text, so as User:ANONYMOUS, which super.users does"
        " not name: unless entries allow it, they cannot replicate, register or reach the tier's"
        " metadata."
    )
    assert warnings_of(stated) == [sentence]
    assert not warnings_of({**stated, "super.users": "User:admin; User:ANONYMOUS"})
    assert not warnings_of({**stated, "allow.everyone.if.no.acl.found": "true"})
    alone = {name: text for name, text in stated.items() if name != "rsm.config.url"}
    assert not warnings_of(alone)
    cluster = {
        **alone,
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.voters": "1@127.0.0.1:9095",
        "controller.listener.names": "CONTROLLER",
    }
    assert sentence.replace("PLAINTEXT", "CONTROLLER and PLAINTEXT") in warnings_of(cluster)


def test_an_authorizer_without_super_users_is_warned_of() -> None:
    stated = {**dev_properties(), "authorizer.class.name": STANDARD}
    assert (
        "super.users is empty: only principals with an ACL can do anything, and a new cluster"
        " has no ACLs. Set it to User:<name>."
    ) in warnings_of(stated)
    assert not warnings_of({**stated, "allow.everyone.if.no.acl.found": "true"})


def test_super_users_with_commas_between_them_are_warned_of() -> None:
    stated = {**dev_properties(), "authorizer.class.name": STANDARD}
    names = "User:CN=a,O=b; User:admin, User:CN=broker"
    assert (
        "super.users holds User:admin, User:CN=broker as one principal: separate several by"
        " semicolons."
    ) in warnings_of({**stated, "super.users": names})


def test_another_authorizer_is_refused_with_the_one_that_there_is() -> None:
    message = refusal({**dev_properties(), "authorizer.class.name": "org.example.Acls"})
    assert f": set it to {STANDARD}, or remove the property" in message


def openness_of(stated: dict[str, str]) -> list[str]:
    config = read_config(stated)
    secured = {*config.tls, *config.sasl}
    return open_listener_warnings(config.values.stated, config.listeners.all, secured)


STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.mark.parametrize(
    ("listeners", "named"),
    [
        ("PLAINTEXT://:9092", "PLAINTEXT://:9092 may"),
        ("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://0.0.0.0:9092 may"),
        ("PLAINTEXT://127.example.org:9092", "PLAINTEXT://127.example.org:9092 may"),
        (
            "PLAINTEXT://10.1.1.1:9092,CONTROLLER://10.1.1.1:9093",
            "PLAINTEXT://10.1.1.1:9092 or CONTROLLER://10.1.1.1:9093 may",
        ),
        ("PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093", "reaches CONTROLLER://:9093 may"),
    ],
)
def test_a_plaintext_listener_that_others_reach_is_one_warning(listeners: str, named: str) -> None:
    stated = {
        "listeners": listeners,
        "advertised.listeners": "PLAINTEXT://localhost:9092",
    }
    if "CONTROLLER" in listeners:
        stated["controller.listener.names"] = "CONTROLLER"
    (warning,) = openness_of(stated)
    assert named in warning
    assert "read, change and delete everything" in warning
    assert openness_of({**stated, "authorizer.class.name": STANDARD}) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "[::1]"])
def test_a_plaintext_listener_of_this_machine_is_no_warning(host: str) -> None:
    secured = {
        "listeners": f"PLAINTEXT://{host}:9092,SSL://:9093",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "broker.pem",
    }
    assert openness_of({"listeners": f"PLAINTEXT://{host}:9092"}) == []
    assert openness_of(secured) == []
