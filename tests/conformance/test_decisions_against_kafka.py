"""Who may do what, decided by Apache Kafka's StandardAuthorizer and by ours, over the wire.

Each round changes the entries of both at random and compares what both let a client do: the bits of
authorized operations (KIP-430) of topics and groups, and whether it may write to any topic at all
(InitProducerId, KIP-679). The client has no name, and the brokers let everybody use what no entry
covers; entries for others decide there too.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tierlog.clients.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

from ..broker.acl_requests import Line, describe, everything
from ..broker_process import RawClient
from ..waiting import wait_until
from .side_by_side import both_brokers

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TOPIC, GROUP, CLUSTER, DENY, ALLOW, LITERAL = 2, 3, 4, 2, 3, 3
IDEMPOTENT_WRITE = 12
TOPICS = ("a", "ab", "abc", "abd", "b", "bc", "hardcode", "z")
GROUPS = ("a", "ab", "b", "*")
PATTERNS = (*TOPICS, "*", "h", "*a")
OURSELVES = "User:ANONYMOUS"
PRINCIPALS = (OURSELVES, OURSELVES, "User:*", "User:other", "Group:ANONYMOUS")
HOSTS = ("*", "*", "127.0.0.1", "10.0.0.1")
ROUNDS = 240
BITS_OF_A_ROUND = len(TOPICS) * 8 + len(GROUPS) * 5 + 1


class Seen(NamedTuple):
    """What a client may do: error and bits of each topic and group; whether it may write."""

    topics: dict[str, tuple[int, int]]
    groups: dict[str, tuple[int, int]]
    any_topic: bool


def seen_by(client: RawClient) -> Seen:
    metadata = client.ask(
        MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in TOPICS],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        ),
        9,
        MetadataResponse,
    )
    groups = client.ask(
        DescribeGroupsRequest(groups=list(GROUPS), include_authorized_operations=True),
        5,
        DescribeGroupsResponse,
    )
    producer = client.ask(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
        4,
        InitProducerIdResponse,
    )
    return Seen(
        {
            each.name or "": (each.error_code, each.topic_authorized_operations)
            for each in metadata.topics
        },
        {each.group_id: (each.error_code, each.authorized_operations) for each in groups.groups},
        # Kafka may have no producer id at hand yet, but says no before it says so.
        producer.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )


def random_creation(random: Random) -> AclCreation:
    return AclCreation(
        resource_type=random.choice((TOPIC, TOPIC, GROUP)),
        resource_name=random.choice(PATTERNS),
        resource_pattern_type=random.choice((LITERAL, LITERAL + 1)),
        principal=random.choice(PRINCIPALS),
        host=random.choice(HOSTS),
        operation=random.choice((2, 3, 4, 5, 6, 7, 8, 10, 11)),
        permission_type=random.choice((DENY, ALLOW, ALLOW)),
    )


def of_the_cluster() -> list[AclCreation]:
    """All but idempotent writes, which would make up for every topic."""
    return [
        AclCreation(
            resource_type=CLUSTER,
            resource_name="kafka-cluster",
            principal=OURSELVES,
            host="*",
            operation=operation,
            permission_type=ALLOW,
        )
        for operation in (5, 7, 8, 9, 10, 11)
    ]


def _has(client: RawClient, entries: list[Line]) -> bool:
    return sorted(describe(client)) == entries


def of_type(kind: int) -> DeleteAclsFilter:
    each = everything()
    each.resource_type_filter = kind
    return each


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RawClient, RawClient]]:
    directory: Path = tmp_path_factory.mktemp("decisions")
    with (
        both_brokers(directory, GUARDED) as (kafka, ours),
        RawClient(kafka) as theirs,
        RawClient(ours) as own,
    ):
        made = [
            CreatableTopic(name=each, num_partitions=1, replication_factor=1) for each in TOPICS
        ]
        for client in (theirs, own):
            request = CreateTopicsRequest(topics=made, timeout_ms=30_000)
            answer = client.ask(request, 6, CreateTopicsResponse)
            assert {each.error_code for each in answer.topics} == {ErrorCode.NONE}
            created = client.ask(
                CreateAclsRequest(creations=of_the_cluster()), 3, CreateAclsResponse
            )
            assert {each.error_code for each in created.results} == {ErrorCode.NONE}
        yield theirs, own


def test_both_let_a_client_do_the_same(clients: tuple[RawClient, RawClient]) -> None:
    """More than 20,000 decisions in all."""
    random = Random(1)
    kept: set[bool] = set()
    for _ in range(ROUNDS):
        creations = [random_creation(random) for _ in range(random.randint(1, 6))]
        kinds = random.choices([TOPIC, GROUP], k=random.choice((0, 0, 0, 1, 2)))
        filters = [of_type(kind) for kind in kinds]
        for client in clients:
            client.ask(DeleteAclsRequest(filters=filters), 3, DeleteAclsResponse)
            client.ask(CreateAclsRequest(creations=creations), 3, CreateAclsResponse)
        theirs, own = clients
        entries = sorted(describe(own))
        wait_until(partial(_has, theirs, entries), 30, "Kafka does not follow")
        ours, kafkas = seen_by(own), seen_by(theirs)
        assert ours == kafkas, entries
        kept.add(ours.any_topic)
    assert kept == {True, False}
    assert ROUNDS * BITS_OF_A_ROUND > 20_000
