"""Access control entries as administrators create, list and delete them, over the wire."""

from pathlib import Path

import pytest

from tierlog.clients.protocol.messages.create_acls import CreateAclsRequest
from tierlog.clients.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tierlog.clients.protocol.schema import Message
from tierlog.replication.authorizer.authorizer import AclOperation, Resource, ResourceType

from ..broker_process import RawClient
from .acl_requests import (
    ALL,
    ALLOW,
    DENY,
    GROUP,
    LITERAL,
    MATCH,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    create,
    creation,
    delete,
    describe,
    everything,
    sought,
)
from .guarded_broker import GuardedBroker


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_are_created_listed_and_deleted(tmp_path: Path, version: int) -> None:
    with GuardedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        assert create(
            client,
            creation("t"),
            creation("", READ),
            creation("t-", ALL, DENY, pattern=PREFIXED),
            creation("t"),
            creation("g", kind=GROUP, principal="alice"),
            creation("*", WRITE),
            version=version,
        ) == [
            (0, ""),
            (42, "Invalid empty resource name"),
            (0, ""),
            (0, ""),
            (
                42,
                "Could not parse principal from `alice` (no colon is present separating the "
                "principal type from the principal name)",
            ),
            (0, ""),
        ]
        lines = [
            (TOPIC, "*", LITERAL, "User:alice", "*", WRITE, ALLOW),
            (TOPIC, "t", LITERAL, "User:alice", "*", READ, ALLOW),
            (TOPIC, "t-", PREFIXED, "User:alice", "*", ALL, DENY),
        ]
        assert describe(client, version) == lines
        covering = describe(client, version, resource_name_filter="t-1", pattern_type_filter=MATCH)
        assert covering == [lines[0], lines[2]]
        assert describe(client, version, principal_filter="User:bob") == []
        topic = everything()
        topic.resource_name_filter = "t"
        assert delete(client, topic, everything(), version=version) == [["t"], ["*", "t", "t-"]]
        assert delete(client, everything(), version=version) == [[]]
        assert describe(client, version) == []


def test_the_authorizer_follows_and_entries_outlive_the_broker(tmp_path: Path) -> None:
    topic = Resource(ResourceType.TOPIC, "t")
    with GuardedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        may = broker.authorizer.authorize
        assert not may("User:alice", "10.0.0.1", AclOperation.READ, topic)
        create(client, creation("t"), creation("t", WRITE))
        assert may("User:alice", "10.0.0.1", AclOperation.READ, topic)
        before = describe(client)
    with GuardedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        assert describe(client) == before
        may = broker.authorizer.authorize
        assert may("User:alice", "10.0.0.1", AclOperation.READ, topic)
        assert not may("User:bob", "10.0.0.1", AclOperation.READ, topic)
        assert may("User:ANONYMOUS", "10.0.0.1", AclOperation.ALTER, topic)
        create(client, creation("*", ALL, DENY, principal="User:*"))
        assert not may("User:alice", "10.0.0.1", AclOperation.READ, topic)


@pytest.mark.parametrize(
    "request_",
    [
        CreateAclsRequest(creations=[creation("t", 0)]),
        CreateAclsRequest(creations=[creation("u"), creation("t", permission=0)]),
        sought(resource_type_filter=0),
        DeleteAclsRequest(filters=[everything(), DeleteAclsFilter()]),
    ],
    ids=lambda request: type(request).__name__,
)
def test_the_number_for_unknown_costs_the_connection(tmp_path: Path, request_: Message) -> None:
    with GuardedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        client.send(request_, 3)
        assert client.is_closed()
        with RawClient(broker.port) as other:
            assert describe(other) == []
