"""What an unmodified client may do with which rights: stories of Kafka's authorizer tests.

After `AuthorizerIntegrationTest` and `EndToEndAuthorizationTest`; each API by itself is in
`test_access_matrix.py`.
"""

from collections.abc import Iterator
from importlib import import_module
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tierlog.tests.broker_process import BrokerThread

admins: Any = import_module("confluent_kafka.admin")  # its types name too little

pytestmark = pytest.mark.long

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
TOPIC, GROUP, CLUSTER, TRANSACTION = "TOPIC", "GROUP", "BROKER", "TRANSACTIONAL_ID"
Right = tuple[str, str, str]
"""A kind of resource, its name, and an operation."""
ERRORS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transaction",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "no topic",
    KafkaError._UNKNOWN_TOPIC: "no topic",
}
PATIENCE_S = 30.0


class Stage:
    """A broker with an authorizer; `admin` may do everything, `alice` what a story allows."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._admin = admins.AdminClient(self.settings("admin"))
        self._names = 0

    def settings(self, user: str = "alice", /, **more: object) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-password",
            "topic.metadata.refresh.interval.ms": 300,
            "log_level": 0,
            **more,
        }

    def name(self) -> str:
        """A name that no other story has."""
        self._names += 1
        return f"story-{self._names}-"

    def topic(self, name: str = "", *values: bytes) -> str:
        """Make a topic that holds these values."""
        name = name or self.name()
        made = self._admin.create_topics([admins.NewTopic(name, 1, 1)])
        made[name].result(PATIENCE_S)
        producer = Producer(self.settings("admin"))
        for value in values:
            producer.produce(name, value)
        assert producer.flush(PATIENCE_S) == 0
        return name

    def allow(
        self, *rights: Right, pattern: str = "LITERAL", host: str = "*", deny: bool = False
    ) -> None:
        bindings = [
            admins.AclBinding(
                admins.ResourceType[kind],
                "kafka-cluster" if kind == CLUSTER else name,
                admins.ResourcePatternType[pattern],
                "User:alice",
                host,
                admins.AclOperation[operation],
                admins.AclPermissionType["DENY" if deny else "ALLOW"],
            )
            for kind, name, operation in rights
        ]
        if not bindings:
            return
        for future in self._admin.create_acls(bindings).values():
            future.result(PATIENCE_S)

    def forbid_all(self) -> None:
        """Remove all entries."""
        everything = admins.AclBindingFilter(
            admins.ResourceType.ANY,
            None,
            admins.ResourcePatternType.ANY,
            None,
            None,
            admins.AclOperation.ANY,
            admins.AclPermissionType.ANY,
        )
        for future in self._admin.delete_acls([everything]).values():
            future.result(PATIENCE_S)

    def produced(self, topic: str, **settings: object) -> str:
        """What becomes of a record that alice sends: `written`, or what she may not."""
        reports: list[KafkaError | None] = []
        producer = Producer(self.settings(**settings))
        producer.produce(topic, b"value", on_delivery=lambda error, _: reports.append(error))
        try:
            assert producer.flush(PATIENCE_S) == 0
        except SystemError as error:
            # A fatal error, which the client raises while it calls back.
            if not isinstance(error.__cause__, KafkaException):
                raise
            return ERRORS[error.__cause__.args[0].code()]
        return "written" if reports[0] is None else ERRORS[reports[0].code()]

    def consumed(self, *topics: str, group: str, count: int = 1) -> list[bytes] | str:
        """The first values that alice reads as a member of the group, or what she may not."""
        consumer = Consumer(
            self.settings(
                **{
                    "group.id": group,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    "allow.auto.create.topics": True,
                }
            )
        )
        consumer.subscribe(list(topics))
        try:
            return values_of(consumer, count)
        finally:
            consumer.close()

    def assigned(self, topic: str) -> list[bytes] | str:
        """The same of a consumer that belongs to no group."""
        consumer = Consumer(self.settings(**{"group.id": "none", "enable.auto.commit": False}))
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            return values_of(consumer, 1, has_group=False)
        finally:
            consumer.close()


def values_of(consumer: Consumer, count: int, *, has_group: bool = True) -> list[bytes] | str:
    values: list[bytes] = []
    until = monotonic() + PATIENCE_S
    while len(values) < count and monotonic() < until:
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            what = ERRORS[error.code()]
            if what == "group" and not has_group:
                # librdkafka looks for its coordinator nevertheless.
                continue
            return what
        value = message.value()
        assert isinstance(value, bytes)
        values.append(value)
    assert len(values) == count, "There are no records and no error."
    return values


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    users = " ".join(f'user_{name}="{name}-password"' for name in ("admin", "alice"))
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "transaction.state.log.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
    }
    with BrokerThread(tmp_path_factory.mktemp("authorized"), properties) as broker:
        assert broker.broker is not None
        ports = {each.name: each.port for each in broker.broker.listeners.bound}
        yield Stage(f"127.0.0.1:{ports['SASL_PLAINTEXT']}")


@pytest.fixture
def stage(running: Stage) -> Stage:
    running.forbid_all()
    return running


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("", "topic"),
        ("DESCRIBE", "topic"),
        ("READ", "topic"),
        ("WRITE", "written"),
        ("ALL", "written"),
    ],
)
def test_writing_needs_write(stage: Stage, operation: str, result: str) -> None:
    topic = stage.topic()
    stage.allow(*[(TOPIC, topic, operation)] if operation else [])
    assert stage.produced(topic) == result
    # Whoever may write to any topic may be idempotent (KIP-679), and nobody else.
    idempotent = stage.produced(topic, **{"enable.idempotence": True})
    assert idempotent in ({"written"} if result == "written" else {"cluster", "topic"})


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ({}, "group"),
        ({GROUP: "READ"}, "topic"),
        ({TOPIC: "READ"}, "group"),
        ({TOPIC: "DESCRIBE", GROUP: "READ"}, "topic"),
        ({TOPIC: "WRITE", GROUP: "READ"}, "topic"),
        ({TOPIC: "READ", GROUP: "DESCRIBE"}, "group"),
        ({TOPIC: "READ", GROUP: "READ"}, [b"value"]),
    ],
)
def test_reading_in_a_group_needs_read_of_both(
    stage: Stage, operations: dict[str, str], result: object
) -> None:
    topic = stage.topic("", b"value")
    stage.allow(*((kind, topic, operation) for kind, operation in operations.items()))
    assert stage.consumed(topic, group=topic) == result


@pytest.mark.parametrize(
    ("operation", "result"), [("DESCRIBE", "topic"), ("WRITE", "topic"), ("READ", [b"value"])]
)
def test_reading_without_a_group_needs_read_of_the_topic_alone(
    stage: Stage, operation: str, result: object
) -> None:
    topic = stage.topic("", b"value")
    stage.allow((TOPIC, topic, operation))
    assert stage.assigned(topic) == result


def test_a_pattern_matches_the_topics_that_the_client_may_see(stage: Stage) -> None:
    name = stage.name()
    for suffix in ("mine", "theirs"):
        stage.topic(name + suffix, suffix.encode())
    stage.allow((GROUP, name, "READ"), (TOPIC, f"{name}mine", "READ"))
    assert stage.consumed(f"^{name}.*", group=name) == [b"mine"]
    # A topic that she may see but not read is an error.
    stage.allow((TOPIC, f"{name}theirs", "DESCRIBE"))
    assert stage.consumed(f"^{name}t.*", group=name) == "topic"


def test_a_pattern_matches_internal_topics_only_with_a_right(stage: Stage) -> None:
    topic = stage.topic("", b"value")
    stage.allow((GROUP, topic, "READ"), (TOPIC, topic, "READ"))
    assert stage.consumed(f"^({topic}|__consumer_.*)", group=topic) == [b"value"]
    stage.allow((TOPIC, "__consumer_offsets", "DESCRIBE"))
    assert stage.consumed("^__consumer_.*", group=topic) == "topic"
    stage.allow((TOPIC, "__consumer_offsets", "READ"))
    assert stage.consumed("^__consumer_.*", group=topic) != "topic"


@pytest.mark.parametrize(
    ("right", "result"),
    [(None, "topic"), ((TOPIC, "CREATE"), "written"), ((CLUSTER, "CREATE"), "written")],
)
def test_a_missing_topic_is_made_for_who_may_create_it(
    stage: Stage, right: tuple[str, str] | None, result: str
) -> None:
    topic = stage.name()
    stage.allow((TOPIC, topic, "WRITE"))
    if right is not None:
        stage.allow((right[0], topic, right[1]))
    assert stage.produced(topic, **{"message.timeout.ms": 20_000}) == result


def test_records_arrive_once_the_right_to_read_them_is_there(stage: Stage) -> None:
    topic = stage.topic("", b"value")
    stage.allow((GROUP, topic, "READ"), (TOPIC, topic, "DESCRIBE"))
    assert stage.consumed(topic, group=topic) == "topic"
    stage.allow((TOPIC, topic, "READ"))
    assert stage.consumed(topic, group=topic) == [b"value"]
    stage.allow((TOPIC, topic, "READ"), deny=True)
    assert stage.consumed(topic, group=topic) == "topic"


def test_a_producer_begins_once_it_may(stage: Stage) -> None:
    topic = stage.topic()
    producer = Producer(stage.settings(**{"transactional.id": topic}))
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE_S)
    assert ERRORS[refused.value.args[0].code()] == "transaction"
    stage.allow((TRANSACTION, topic, "WRITE"), (TOPIC, topic, "WRITE"))
    producer = Producer(stage.settings(**{"transactional.id": topic}))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.commit_transaction(PATIENCE_S)


def test_a_transaction_with_a_topic_of_others_can_be_aborted(stage: Stage) -> None:
    topic, theirs = stage.topic(), stage.topic()
    stage.allow((TRANSACTION, topic, "WRITE"), (TOPIC, topic, "WRITE"))
    producer = Producer(stage.settings(**{"transactional.id": topic}))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"mine")
    producer.produce(theirs, b"theirs")
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(PATIENCE_S)
    assert refused.value.args[0].txn_requires_abort()
    producer.abort_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"again")
    producer.commit_transaction(PATIENCE_S)


def test_offsets_of_a_transaction_need_the_group(stage: Stage) -> None:
    topic = stage.topic("", b"value")
    stage.allow((TRANSACTION, topic, "WRITE"), (TOPIC, topic, "ALL"))
    reader = Consumer(stage.settings("admin", **{"group.id": topic}))
    for is_allowed in (False, True):
        producer = Producer(stage.settings(**{"transactional.id": topic}))
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        offsets = [TopicPartition(topic, 0, 1)]
        if not is_allowed:
            with pytest.raises(KafkaException) as refused:
                producer.send_offsets_to_transaction(
                    offsets, reader.consumer_group_metadata(), PATIENCE_S
                )
            assert ERRORS[refused.value.args[0].code()] == "group"
            producer.abort_transaction(PATIENCE_S)
            stage.allow((GROUP, topic, "READ"))
            continue
        producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), PATIENCE_S)
        producer.commit_transaction(PATIENCE_S)
        assert reader.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 1
    reader.close()


def test_a_prefix_covers_names_and_a_host_its_clients(stage: Stage) -> None:
    name = stage.name()
    topic = stage.topic(f"{name}topic", b"value")
    stage.allow((TOPIC, name, "ALL"), (GROUP, name, "READ"), pattern="PREFIXED", host="10.1.2.3")
    assert stage.produced(topic) == "topic"
    stage.allow((TOPIC, name, "ALL"), (GROUP, name, "READ"), pattern="PREFIXED", host="127.0.0.1")
    assert stage.produced(topic) == "written"
    assert stage.consumed(topic, group=f"{name}group", count=2) == [b"value", b"value"]
    stage.allow((TOPIC, "*", "WRITE"), deny=True)
    assert stage.produced(topic) == "topic"
