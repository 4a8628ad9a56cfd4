"""What a user's client does first, by librdkafka: a record there and back, and a login."""

from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tierlog.tests.docker.testcontainers.library import Login
from tierlog.tests.docker.testcontainers.node import KEY_STORE, TRUST_STORE
from tierlog.tests.security.sasl.logins import refusal
from tierlog.tests.security.tls.certificates import authority, write_authority
from tierlog.tests.security.tls.pkcs12_stores import key_store, trust_store

_WITHIN_S = 60.0


def round_trip(bootstrap: str) -> str | None:
    """A record is written and read; returns the id of the cluster."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("greetings", b"hello", partition=0)
    assert producer.flush(_WITHIN_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition("greetings", 0, 0)])
    message = consumer.poll(_WITHIN_S)
    consumer.close()
    assert message is not None
    assert message.value() == b"hello"
    return AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=_WITHIN_S).cluster_id


def stores(host: str, password: str) -> dict[str, bytes]:
    """The files of a listener with TLS that clients reach as `host`, by name."""
    keys = key_store(authority("ours").issue_cert(host), [], password)
    return {KEY_STORE: keys, TRUST_STORE: trust_store(password)}


def log_in(bootstrap: str, login: Login, folder: Path) -> None:
    """The user of a library gets in with the right password over TLS, and with no other."""
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(write_authority(folder)),
        "sasl.mechanism": login.mechanism,
        "sasl.username": login.user,
    }
    wrong = refusal({**settings, "sasl.password": "wrong"})
    assert wrong.code() == KafkaError._AUTHENTICATION
    right = AdminClient({**settings, "sasl.password": login.password, "log_level": 0})
    assert "greetings" in right.list_topics(timeout=_WITHIN_S).topics
