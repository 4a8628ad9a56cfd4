"""Configuration is altered and described as by Apache Kafka: same request, same answer."""

from collections.abc import Iterator

import pytest

from tierlog.clients.protocol.messages.alter_configs import (
    AlterableConfig as WholeConfig,
    AlterConfigsRequest,
    AlterConfigsResource as WholeResource,
)
from tierlog.clients.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tierlog.clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tierlog.clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tierlog.clients.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tierlog.clients.protocol.schema import Message

from ..waiting import wait_until
from .side_by_side import SideBySide, both_brokers, differences, plain

pytestmark = pytest.mark.recorded

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]

BROKER_CHANGES: list[Change] = [
    ("log.retention.ms", SET, "x"),
    ("log.retention.ms", SET, None),
    ("log.dirs", SET, "/x"),
    ("log.dirs", DELETE, None),
    ("broker.id", SET, "4"),
    ("max.connections", SET, "-100"),
    ("max.connections", SET, "1000"),
    ("log.cleaner.threads", APPEND, "1"),
    ("log.cleanup.policy", APPEND, "compact"),
    ("nonsense", SET, "x"),
    ("log.retention.ms", SET, "60000000"),
]

INCREMENTAL: list[tuple[int, str, list[Change]]] = [
    (TOPIC, "t", []),
    (TOPIC, "t", [("retention.ms", SET, "5000")]),
    (TOPIC, "t", [("retention.ms", SET, None)]),
    (TOPIC, "t", [("retention.ms", SET, "x")]),
    (TOPIC, "t", [("retention.ms", SET, "-5")]),
    (TOPIC, "t", [("nonsense", SET, "1")]),
    (TOPIC, "t", [("nonsense", DELETE, None)]),
    (TOPIC, "t", [("retention.ms", 7, "1")]),
    (TOPIC, "t", [("retention.ms", APPEND, "1")]),
    (TOPIC, "t", [("retention.ms", SUBTRACT, "1")]),
    (TOPIC, "t", [("cleanup.policy", APPEND, "weird")]),
    (TOPIC, "t", [("cleanup.policy", APPEND, None)]),
    (TOPIC, "t", [("cleanup.policy", APPEND, "compact")]),
    (TOPIC, "t", [("cleanup.policy", APPEND, "compact")]),
    (TOPIC, "t", [("cleanup.policy", SUBTRACT, "delete")]),
    (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)]),
    (TOPIC, "t", [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")]),
    (TOPIC, "t", [("remote.storage.enable", SET, "true")]),
    (TOPIC, "gone", [("retention.ms", SET, "5000")]),
    (TOPIC, "", [("retention.ms", SET, "5000")]),
    (TOPIC, "b@d", [("retention.ms", SET, "5000")]),
    (0, "x", [("retention.ms", SET, "5000")]),
    (99, "x", [("retention.ms", SET, "5000")]),
    (BROKER, "x", [("log.retention.ms", SET, "5000")]),
    (BROKER, "2", [("log.retention.ms", SET, "5000")]),
    *((BROKER, broker, [change]) for broker in ("1", "") for change in BROKER_CHANGES),
    (BROKER, "", [("message.max.bytes", SET, "600000")]),
    (CLIENT_METRICS, "m", [("nonsense", SET, "1")]),
    (CLIENT_METRICS, "m", [("interval.ms", SET, "50")]),
    (CLIENT_METRICS, "m", [("interval.ms", SET, "x")]),
    (CLIENT_METRICS, "m", [("match", SET, "nonsense")]),
    (CLIENT_METRICS, "m", [("match", SET, "client_id=[")]),
    (CLIENT_METRICS, "m", [("metrics", APPEND, "a.b")]),
    (CLIENT_METRICS, "", [("metrics", SET, "a.b")]),
    (CLIENT_METRICS, "m", [("match", SET, "client_id=a.*"), ("interval.ms", SET, "1000")]),
    (GROUP, "g", [("nonsense", SET, "1")]),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")]),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "0")]),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "1000000")]),
    (GROUP, "g", [("consumer.assignment.interval.ms", SET, "1000000")]),
    (GROUP, "g", [("share.auto.offset.reset", SET, "x")]),
    (GROUP, "g", [("streams.num.standby.replicas", SET, "9")]),
    (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]),
]

WHOLE: list[tuple[int, str, list[tuple[str, str | None]]]] = [
    (TOPIC, "t", [("segment.bytes", None)]),
    (TOPIC, "t", [("segment.bytes", "3")]),
    (TOPIC, "t", [("segment.bytes", "2000000"), ("segment.bytes", "3000000")]),
    (TOPIC, "t", [("nonsense", "3")]),
    (TOPIC, "gone", [("segment.bytes", "2000000")]),
    (99, "x", [("segment.bytes", "2000000")]),
    (BROKER, "1", [("log.dirs", "/x")]),
    (BROKER, "1", [("log.segment.bytes", "5000000")]),
    (TOPIC, "t", [("segment.bytes", "2000000")]),
]

DESCRIBED = [
    (TOPIC, "t", None),
    (BROKER, "1", ["log.retention.ms", "message.max.bytes", "nonsense", "log.segment.bytes"]),
    (BROKER, "1", ["log.retention.hours", "log.retention.minutes"]),
    (BROKER, "1", ["log.roll.hours", "log.roll.ms", "log.roll.jitter.hours", "log.roll.jitter.ms"]),
    (BROKER, "1", ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"]),
    (BROKER, "", None),
    (CLIENT_METRICS, "m", None),
    (CLIENT_METRICS, "", None),
    (GROUP, "g", None),
    (GROUP, "", None),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    stated, directory = {"log.roll.hours": "100"}, tmp_path_factory.mktemp("both")
    with both_brokers(directory, stated) as ports, SideBySide(*ports) as both:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        both.same(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        yield both


def incremental(
    kind: int, name: str, changes: list[Change], *, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def describe_alike(both: SideBySide) -> None:
    """Kafka's broker obeys a little later than its controller answers."""
    for kind, name, keys in DESCRIBED:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=keys
        )
        wait_until_alike(
            both, DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4
        )


def wait_until_alike(both: SideBySide, request: Message, version: int) -> None:
    found: list[str] = []

    def is_alike() -> bool:
        kafka, ours = both.ask(request, version)
        found[:] = differences(plain(kafka), plain(ours))
        return not found

    wait_until(is_alike, 60, lambda: "\n".join(found))
    both.same(request, version)


def test_changes_one_by_one_and_as_a_whole_are_answered_and_seen_as_in_kafka(
    both: SideBySide,
) -> None:
    for kind, name, changes in INCREMENTAL:
        for version in (0, 1):
            request = incremental(kind, name, changes, validate_only=version == 0)
            both.same(request, version)
    describe_alike(both)
    for kind, name, values in WHOLE:
        configs = [WholeConfig(name=key, value=value) for key, value in values]
        resource = WholeResource(resource_type=kind, resource_name=name, configs=configs)
        for version in range(3):
            whole = AlterConfigsRequest(resources=[resource], validate_only=version < 2)
            both.same(whole, version)
    describe_alike(both)


def test_a_resource_that_is_named_twice_is_refused_twice(both: SideBySide) -> None:
    request = incremental(TOPIC, "t", [("retention.ms", SET, "7")])
    request.resources = [*request.resources, *request.resources]
    kafka, ours = both.ask(request, 1)
    assert plain(kafka) == plain(ours)


def credential(
    name: str, mechanism: int, iterations: int = 4096, *, salted: int = 32, salt: bytes = b"salt"
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=bytes(salted),
    )


REFUSED_CREDENTIALS = [
    [credential("eve", 0)],
    [credential("eve", 9)],
    [credential("eve", 1, 4095)],
    [credential("eve", 1, 16_385)],
    [credential("", 1)],
    [credential("eve", 1, salt=b"")],
    [credential("eve", 1, salted=0)],
    [credential("eve", 1), credential("eve", 1)],
    [credential("eve", 1), credential("eve", 9)],
]
NAMED_USERS = [None, [], ["bob"], ["bob", "al"], ["nobody"], ["bob", "bob"], [""]]


def test_users_have_the_credentials_that_they_have_in_kafka(both: SideBySide) -> None:
    for upsertions in REFUSED_CREDENTIALS:
        both.same(AlterUserScramCredentialsRequest(upsertions=upsertions), 0)
    missing = [ScramCredentialDeletion(name="eve", mechanism=1)]
    both.same(AlterUserScramCredentialsRequest(deletions=missing), 0)
    for given in ([credential("bob", 2), credential("al", 1)], [credential("al", 2, 16_384)]):
        both.same(AlterUserScramCredentialsRequest(upsertions=given), 0)
    for names in NAMED_USERS:
        users = None if names is None else [UserName(name=name) for name in names]
        wait_until_alike(both, DescribeUserScramCredentialsRequest(users=users), 0)
