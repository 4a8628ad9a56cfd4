"""confluent-kafka, unmodified, creates, lists and deletes access control entries."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import pytest

from ..broker_process import BrokerThread

TIMEOUT_S = 30
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class Entry(Protocol):
    """`confluent_kafka.admin.AclBinding`."""

    name: str
    principal: str


class Admin(Protocol):
    """The part of `confluent_kafka.admin.AdminClient` about entries."""

    def create_acls(self, acls: Sequence[Entry]) -> dict[Entry, Future[None]]: ...
    def describe_acls(self, acl_binding_filter: object) -> Future[list[Entry]]: ...
    def delete_acls(
        self, acl_binding_filters: list[object]
    ) -> dict[object, Future[list[Entry]]]: ...


class Module(Protocol):
    """`confluent_kafka.admin`."""

    AdminClient: Callable[[dict[str, str]], Admin]
    AclBinding: Callable[..., Entry]
    AclBindingFilter: Callable[..., object]


librdkafka = cast("Module", import_module("confluent_kafka.admin"))


def code(enumeration: str, name: str) -> object:
    """A member of one of the client's enumerations."""
    return getattr(getattr(librdkafka, enumeration), name)


def entry(name: str, principal: str, pattern: str = "LITERAL") -> Entry:
    return librdkafka.AclBinding(
        code("ResourceType", "TOPIC"),
        name,
        code("ResourcePatternType", pattern),
        principal,
        "*",
        code("AclOperation", "READ"),
        code("AclPermissionType", "ALLOW"),
    )


def sought(name: str | None = None, principal: str | None = None, pattern: str = "ANY") -> object:
    return librdkafka.AclBindingFilter(
        code("ResourceType", "ANY"),
        name,
        code("ResourcePatternType", pattern),
        principal,
        None,
        code("AclOperation", "ANY"),
        code("AclPermissionType", "ANY"),
    )


def test_entries_come_and_go(tmp_path: Path) -> None:
    entries = [entry("t", "User:a"), entry("t-", "User:b", "PREFIXED"), entry("*", "User:c")]
    with BrokerThread(tmp_path, GUARDED) as broker:
        admin = librdkafka.AdminClient({"bootstrap.servers": broker.bootstrap})
        for made in admin.create_acls(entries).values():
            made.result(TIMEOUT_S)
        assert set(admin.describe_acls(sought()).result(TIMEOUT_S)) == set(entries)
        covering = admin.describe_acls(sought("t-1", pattern="MATCH")).result(TIMEOUT_S)
        assert {each.principal for each in covering} == {"User:b", "User:c"}
        refused = admin.create_acls([entry("t", "nobody")])
        with pytest.raises(Exception, match="no colon is present"):
            next(iter(refused.values())).result(TIMEOUT_S)
        for deleted in admin.delete_acls([sought(principal="User:a")]).values():
            assert [each.name for each in deleted.result(TIMEOUT_S)] == ["t"]
        left = admin.describe_acls(sought()).result(TIMEOUT_S)
        assert {each.principal for each in left} == {"User:b", "User:c"}
