"""The properties of TLS listeners: what is obeyed, and the sentence for each that cannot be."""

from collections.abc import Mapping

import pytest

from tierlog.broker.config.config import config_warnings, read_config
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.security.tls.settings import KeyStore, Secret, TlsSettings, TrustStore

LISTENERS = {"listeners": "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093"}
FILES = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/keys.pem"}
INLINE = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": "the secret key",
    "ssl.keystore.certificate.chain": "the chain",
}
PKCS12 = {
    "ssl.keystore.type": "PKCS12",
    "ssl.keystore.location": "/keys.p12",
    "ssl.keystore.password": "the secret",
}
ALL_OF_1_3 = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"


def settings(stated: Mapping[str, str]) -> TlsSettings:
    return read_config({**LISTENERS, **stated}).tls["SSL"]


def refusal(stated: Mapping[str, str]) -> str:
    with pytest.raises(KafkaError) as caught:
        read_config({**LISTENERS, **stated})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert "\n" not in caught.value.message
    assert "secret" not in caught.value.message
    return caught.value.message


def test_a_listener_has_kafkas_defaults() -> None:
    assert settings(FILES) == TlsSettings("SSL", KeyStore("/keys.pem"))


@pytest.mark.parametrize("kind", ["pkcs12", "JKS"])
def test_what_java_calls_jks_may_be_pkcs12(kind: str) -> None:
    more = {
        "ssl.key.password": "the secret",
        "ssl.truststore.type": kind,
        "ssl.truststore.location": "/ca.p12",
    }
    read = settings({**PKCS12, "ssl.keystore.type": kind, **more})
    secret = Secret("the secret")
    assert read.keys == KeyStore("/keys.p12", None, None, secret, "PKCS12", secret)
    assert read.trust == TrustStore("/ca.p12", None, "PKCS12")
    assert "secret" not in repr(read)


def test_blanks_at_the_ends_of_a_password_are_none_of_it_as_in_kafka() -> None:
    keys = settings({**FILES, "ssl.key.password": " the secret\t"}).keys
    assert keys is not None
    assert keys.key_password == Secret("the secret")


def test_a_listeners_own_value_wins() -> None:
    own = {
        "ssl.client.auth": "none",
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "everybody's",
        "listener.name.ssl.ssl.truststore.certificates": "ours",
    }
    read = settings({**INLINE, **own})
    assert read.keys == KeyStore("", Secret("the secret key"), Secret("the chain"))
    assert read.client_auth == "required"
    assert read.trust == TrustStore("", Secret("ours"))
    assert "the secret key" not in repr(read)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, ("TLSv1.2", "TLSv1.3", ())),
        ({"ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1.3", "TLSv1.3", ())),
        ({"ssl.enabled.protocols": "TLSv1,TLSv1.2"}, ("TLSv1.2", "TLSv1.2", ())),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"},
            ("TLSv1.2", "TLSv1.2", ("ECDHE-RSA-AES256-GCM-SHA384",)),
        ),
        ({"ssl.cipher.suites": ALL_OF_1_3}, ("TLSv1.3", "TLSv1.3", ())),
    ],
)
def test_protocols_and_suites(
    stated: dict[str, str], expected: tuple[str, str, tuple[str, ...]]
) -> None:
    read = settings({**FILES, **stated})
    assert (read.oldest, read.newest, read.ciphers) == expected


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({}, "it has no private key"),
        ({"ssl.keystore.location": "/keys.jks"}, "set ssl.keystore.type=PEM"),
        ({**FILES, "ssl.keystore.type": "BCFKS"}, "keytool -importkeystore -deststoretype PKCS12"),
        ({**FILES, "ssl.keystore.type": "PKCS12"}, "without ssl.keystore.password"),
        ({**PKCS12, "ssl.key.password": "other"}, "ssl.key.password is not ssl.keystore.password"),
        ({**INLINE, "ssl.keystore.location": "/keys.pem"}, "not both"),
        ({**INLINE, "ssl.keystore.type": "JKS"}, "set ssl.keystore.type=PEM"),
        ({**INLINE, "ssl.keystore.key": ""}, "without ssl.keystore.key"),
        (
            {**INLINE, "ssl.keystore.certificate.chain": ""},
            "without ssl.keystore.certificate.chain",
        ),
        ({**FILES, "ssl.keystore.password": "secret"}, "a PEM store has none"),
        ({"ssl.keystore.password": "secret"}, "without ssl.keystore.location"),
        ({**FILES, "ssl.truststore.password": "secret"}, "without ssl.truststore.location"),
        ({**FILES, "ssl.truststore.certificates": "x"}, "set ssl.truststore.type=PEM"),
        (
            {**FILES, "ssl.truststore.location": "/c", "ssl.truststore.certificates": "c"},
            "not both",
        ),
        (
            {
                **FILES,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "/c",
                "ssl.truststore.password": "secret",
            },
            "a PEM store has none",
        ),
        ({**FILES, "ssl.client.auth": "perhaps"}, "ssl.client.auth"),
        ({**FILES, "listener.name.ssl.ssl.client.auth": "perhaps"}, "listener.name.ssl."),
        ({**FILES, "ssl.engine.factory.class": "org.example.Engine"}, "a Java class"),
        ({**FILES, "ssl.provider": "BCFIPS"}, "a security provider of Java"),
        ({**FILES, "ssl.protocol": "SSLv3"}, "use TLSv1.3"),
        ({**FILES, "ssl.enabled.protocols": "TLSv1.1"}, "holds neither"),
        ({**FILES, "ssl.enabled.protocols": "TLSv2"}, "holds TLSv2"),
        (
            {**FILES, "ssl.cipher.suites": "TLS_KRB5_WITH_RC4_128_SHA"},
            "which OpenSSL does not have",
        ),
        ({**FILES, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "list all three"),
        (
            {
                **FILES,
                "ssl.cipher.suites": ALL_OF_1_3,
                "ssl.enabled.protocols": "TLSv1.2",
            },
            "no suite of the protocols",
        ),
        ({**FILES, "ssl.client.auht": "required"}, "did you mean ssl.client.auth?"),
        ({**FILES, "ssl.keystore.loction": "/keys.pem"}, "did you mean ssl.keystore.location?"),
        ({**FILES, "ssl.endpoint.identification.algorithm": "LDAPS"}, "neither https nor empty"),
        ({"listeners": "A://:1", "security.inter.broker.protocol": "SSL"}, "between brokers"),
        (
            {**FILES, "listeners": "SASL_SSL://127.0.0.1:9093"},
            "by default, holds GSSAPI",
        ),
        ({**FILES, "listener.name.plaintext.ssl.client.auth": "required"}, "without TLS"),
    ],
)
def test_what_cannot_be_obeyed_refuses_the_start(stated: dict[str, str], sentence: str) -> None:
    assert sentence in refusal(stated)


def test_what_a_tls_listener_does_not_obey_is_named() -> None:
    stated = {**LISTENERS, **FILES, "ssl.trustmanager.algorithm": "PKIX"}
    assert config_warnings(read_config(stated)) == [
        "1 of Kafka's properties have no effect here: ssl.trustmanager.algorithm"
    ]


def test_keys_without_a_tls_listener_are_named() -> None:
    assert config_warnings(read_config(FILES)) == [
        "2 of Kafka's properties have no effect here: ssl.keystore.type, ssl.keystore.location"
    ]


def test_nodes_may_reach_each_other_over_tls() -> None:
    for stated in (
        {"security.inter.broker.protocol": "SSL"},
        {"inter.broker.listener.name": "SSL"},
        {"listeners": "SSL://127.0.0.1:9093", "rsm.config.url": "file:///tmp/tier"},
    ):
        config = read_config({**LISTENERS, **FILES, **stated})
        assert config.tls["SSL"].checks_host
        assert not [each for each in config_warnings(config) if "no effect" in each]


def test_a_broker_without_a_controller_needs_no_key_to_reach_one() -> None:
    stated = {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.voters": "1@localhost:9094",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        "listener.name.controller.ssl.truststore.type": "PEM",
        "listener.name.controller.ssl.truststore.location": "/ca.pem",
        "listener.name.controller.ssl.endpoint.identification.algorithm": "",
    }
    config = read_config(stated)
    assert config.tls == {}
    assert config.tls_of_others["CONTROLLER"] == TlsSettings(
        "CONTROLLER", None, TrustStore("/ca.pem"), checks_host=False
    )
    assert config_warnings(config) == []


def test_a_registration_names_the_protocol_of_each_listener() -> None:
    config = read_config({**LISTENERS, **FILES})
    assert [config.protocol_code(name) for name in ("PLAINTEXT", "SSL")] == [0, 1]
