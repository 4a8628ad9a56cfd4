"""Apache Kafka with its StandardAuthorizer and ours: the same requests, the same answers.

The same entries are created, listed and deleted on both, by requests of every version, and by the
unmodified `kafka-acls`. Only the order in which Kafka lists entries and resources is not compared:
it comes from hash tables and from random ids.
"""

import re
import shlex
from collections.abc import Iterator
from copy import copy
from random import Random
from typing import NamedTuple

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tierlog.clients.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tierlog.clients.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tierlog.clients.protocol.schema import Message
from tierlog.tests.recordings.kafka_node import kafka_node

from ..broker.acl_requests import describe, everything, sought
from ..broker.guarded_broker import GuardedBroker
from ..broker_process import RawClient
from ..house_rules import ROOT
from ..waiting import wait_until
from .many_tools import ManyTools

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
NAMES = ("t", "to", "topic", "*", "kafka-cluster", "", "übung")
PRINCIPALS = ("User:alice", "User:*", "User:CN=a,O=b", "Group:g", "alice", ":", "User:")
HOSTS = ("*", "127.0.0.1", "::1", "not an address", "")
ROUNDS = 24


class Pair(NamedTuple):
    """Kafka and ours, with a connection to each."""

    kafka: RawClient
    ours: RawClient
    ports: tuple[int, int]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("acls")
    (directory / "kafka").mkdir()
    with (
        kafka_node(directory / "kafka", properties=GUARDED) as kafka,
        GuardedBroker(directory / "ours") as ours,
        RawClient(kafka.port) as their_client,
        RawClient(ours.port) as our_client,
    ):
        yield Pair(their_client, our_client, (kafka.port, ours.port))


def _acl_order(acl: AclDescription | DeleteAclsMatchingAcl) -> bytes:
    return repr(acl).encode()


def _resource_order(resource: DescribeAclsResource) -> tuple[int, str, int]:
    return resource.resource_type, resource.resource_name, resource.pattern_type


def comparable(answer: Message, version: int) -> bytes:
    """The bytes of an answer, with its lists in one order."""
    assert getattr(answer, "throttle_time_ms", 0) == 0
    if isinstance(answer, DescribeAclsResponse):
        for resource in answer.resources:
            resource.acls.sort(key=_acl_order)
        answer.resources.sort(key=_resource_order)
    if isinstance(answer, DeleteAclsResponse):
        for result in answer.filter_results:
            result.matching_acls.sort(key=_acl_order)
    return encode_bytes(answer, version)


def same(pair: Pair, request: Message, version: int, expected: type[Message]) -> None:
    """Both answer alike. Kafka may be late: its brokers hear of a change after its answer."""
    ours = comparable(pair.ours.ask(request, version, expected), version)
    theirs = [b""]

    def agree() -> bool:
        theirs[0] = comparable(pair.kafka.ask(request, version, expected), version)
        return theirs[0] == ours

    if isinstance(request, DescribeAclsRequest):
        wait_until(agree, 20, lambda: f"{request}\nours:   {ours!r}\nkafka: {theirs[0]!r}")
    else:
        assert agree(), f"{request}\nours:  {ours!r}\nkafka: {theirs[0]!r}"


def random_creation(random: Random) -> AclCreation:
    return AclCreation(
        resource_type=random.choice((2, 3, 4, 5, 6, 7)),
        resource_name=random.choice(NAMES),
        resource_pattern_type=random.choice((3, 4)),
        principal=random.choice(PRINCIPALS),
        host=random.choice(HOSTS),
        operation=random.randint(2, 15),
        permission_type=random.choice((2, 3)),
    )


def random_filter(random: Random) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=random.choice((1, 1, 2, 3, 4, 7)),
        resource_name_filter=random.choice((None, None, *NAMES)),
        pattern_type_filter=random.choice((1, 2, 3, 4)),
        principal_filter=random.choice((None, None, None, *PRINCIPALS)),
        host_filter=random.choice((None, None, None, *HOSTS)),
        operation=random.choice((1, 1, 1, 2, 3, 8)),
        permission_type=random.choice((1, 1, 2, 3)),
    )


def described(each: DeleteAclsFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=each.resource_type_filter,
        resource_name_filter=each.resource_name_filter,
        pattern_type_filter=each.pattern_type_filter,
        principal_filter=each.principal_filter,
        host_filter=each.host_filter,
        operation=each.operation,
        permission_type=each.permission_type,
    )


def clean(pair: Pair) -> None:
    request = DeleteAclsRequest(filters=[everything()])
    for client in (pair.kafka, pair.ours):
        client.ask(request, 3, DeleteAclsResponse)
    same(pair, sought(), 3, DescribeAclsResponse)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_same_requests_have_the_same_answers(pair: Pair, version: int) -> None:
    clean(pair)
    random = Random(version)
    for _ in range(ROUNDS):
        creations = [random_creation(random) for _ in range(random.randint(0, 12))]
        repeated = [*creations, *creations[:2]]
        same(pair, CreateAclsRequest(creations=repeated), version, CreateAclsResponse)
        same(pair, sought(), version, DescribeAclsResponse)
        for _ in range(6):
            same(pair, described(random_filter(random)), version, DescribeAclsResponse)
        filters = [random_filter(random) for _ in range(random.randint(0, 3))]
        same(pair, DeleteAclsRequest(filters=filters), version, DeleteAclsResponse)
        same(pair, sought(), version, DescribeAclsResponse)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resource_type", 1),
        ("resource_pattern_type", 1),
        ("resource_pattern_type", 2),
        ("operation", 1),
        ("permission_type", 1),
    ],
)
def test_what_no_entry_may_have(pair: Pair, field: str, value: int) -> None:
    """Kafka fails with an internal error, for all entries of the request: it meets such a number
    where none is foreseen. Ours refuses the one entry, as Kafka's controller would."""
    clean(pair)
    valid = random_creation(Random(1))
    valid.resource_name, valid.principal, valid.resource_type = "t", "User:a", 2
    creation = copy(valid)
    setattr(creation, field, value)
    request = CreateAclsRequest(creations=[valid, creation])
    theirs = pair.kafka.ask(request, 3, CreateAclsResponse).results
    assert [each.error_code for each in theirs] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    ours = pair.ours.ask(request, 3, CreateAclsResponse).results
    assert [each.error_code for each in ours] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    "field", ["resource_type", "resource_pattern_type", "operation", "permission_type"]
)
def test_numbers_of_a_later_kafka_are_refused(pair: Pair, field: str) -> None:
    clean(pair)
    creation = random_creation(Random(1))
    creation.resource_name, creation.principal, creation.resource_type = "t", "User:a", 2
    other = copy(creation)
    setattr(creation, field, 99)
    same(pair, CreateAclsRequest(creations=[creation, other]), 3, CreateAclsResponse)
    field = f"{field.removeprefix('resource_')}_filter" if "pattern" in field else field
    field = "resource_type_filter" if field == "resource_type" else field
    each = everything()
    setattr(each, field, 99)
    same(pair, described(each), 3, DescribeAclsResponse)
    same(pair, DeleteAclsRequest(filters=[each, everything()]), 3, DeleteAclsResponse)


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(
    "field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
def test_the_number_for_unknown_closes_the_connection(pair: Pair, field: str, version: int) -> None:
    each = everything()
    setattr(each, field, 0)
    for port in pair.ports:
        for request in (described(each), DeleteAclsRequest(filters=[each])):
            with RawClient(port) as client:
                client.send(request, version)
                assert client.is_closed()


TOOL = (
    ("--add", "--allow-principal", "User:p", "--producer", "--topic", "t", "--idempotent"),
    ("--add", "--allow-principal", "User:c", "--consumer", "--topic", "t", "--group", "g"),
    (
        *("--add", "--deny-principal", "User:c", "--deny-host", "10.0.0.1", "--operation", "All"),
        *("--topic", "t-", "--resource-pattern-type", "prefixed"),
    ),
    ("--list",),
    ("--list", "--topic", "t-1", "--resource-pattern-type", "match"),
    ("--list", "--principal", "User:c"),
    ("--remove", "--force", "--allow-principal", "User:p", "--producer", "--topic", "t"),
    ("--list",),
    ("--add", "--allow-principal", "nobody", "--operation", "Read", "--topic", "t"),
)


def lines(said: str) -> list[str]:
    """What a tool has printed, line by line in one order, without addresses and traces."""
    kept = [re.sub(r"127\.0\.0\.1:\d+", "broker", each) for each in said.splitlines()]
    return sorted(each.strip() for each in kept if not each.startswith("\tat "))


def test_kafka_acls_prints_the_same(pair: Pair) -> None:
    clean(pair)
    with ManyTools() as tools:
        for arguments in TOOL:
            said = {
                (answer.code, *lines(answer.text))
                for port in pair.ports
                for answer in [
                    tools.run("kafka-acls", "--bootstrap-server", f"127.0.0.1:{port}", *arguments)
                ]
            }
            assert len(said) == 1, (arguments, said)


def test_the_commands_of_the_page_work(pair: Pair) -> None:
    """docs/security.md, word by word but for the port."""
    clean(pair)
    page = (ROOT / "docs" / "security.md").read_text()
    commands = re.findall(
        r"^    kafka-acls\.sh --bootstrap-server localhost:9092 (.+)$", page, re.MULTILINE
    )
    assert len(commands) == 6
    with ManyTools() as tools:
        for command in commands:
            server = ("--bootstrap-server", f"127.0.0.1:{pair.ports[1]}")
            said = tools.run("kafka-acls", *server, *shlex.split(command))
            assert said.code == 0, said
    left = {(acl[1], acl[3]) for acl in describe(pair.ours)}
    assert left == {("orders", "User:CN=alice,O=people"), ("orders", "User:*")}
