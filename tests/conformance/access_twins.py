"""Apache Kafka and ours with the same access control entries, for clients from many addresses.

Nobody has a name on a plaintext listener, so a client is told from another by the address that it
comes from: each address has other rights.
"""

import socket
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import cast

from tierlog.clients.protocol.api import ApiKey

from ..broker_process import RawClient
from ..security.access_cases import EXISTING, Case, Names
from ..security.ruled_broker import PROPERTIES, answer_to, ask, denials, prepare
from ..waiting import wait_until
from .side_by_side import Plain, differences

NODE = {
    **PROPERTIES,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
BROKER, ADMINISTRATOR = "127.0.0.1", "127.0.0.2"
"""The addresses that may do everything: Kafka's own nodes speak to each other from the first."""

_KINDS = (2, 3, 4, 5)
_ANSWER_S = 180
"""How long an answer may take: Kafka is slow on a busy machine."""


class ClientFrom(RawClient):
    """A connection from an address of this machine."""

    def __init__(self, port: int, host: str) -> None:
        super().__init__(port)
        self.socket.close()
        where = ("127.0.0.1", port)
        self.socket = socket.create_connection(where, _ANSWER_S, source_address=(host, 0))


def entry(kind: int, name: str, operation: int, host: str) -> dict[str, object]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:ANONYMOUS",
        "host": host,
        "operation": operation,
        "permission_type": 3,
    }


def everything() -> list[dict[str, object]]:
    """The entries of those who may do everything."""
    return [
        entry(kind, "kafka-cluster" if kind == 4 else "*", 2, host)
        for kind in _KINDS
        for host in (BROKER, ADMINISTRATOR)
    ]


def count_of_acls(client: RawClient) -> int:
    nothing_special = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    answer = cast("dict[str, Plain]", ask(client, ApiKey.DESCRIBE_ACLS, 3, **nothing_special))
    resources = cast("list[dict[str, list[Plain]]]", answer["resources"])
    return sum(len(each["acls"]) for each in resources)


class Cluster:
    """One of the two: its connections by address, and the names with their ids."""

    def __init__(
        self,
        port: int,
        hosts: Iterable[str],
        entries: Sequence[dict[str, object]],
        stack: ExitStack,
    ) -> None:
        enter = stack.enter_context
        self._admin = enter(ClientFrom(port, ADMINISTRATOR))
        made = [*everything(), *entries]
        created = ask(self._admin, ApiKey.CREATE_ACLS, 3, creations=made)
        assert not denials(created)
        wait_until(partial(self._has, len(made)), _ANSWER_S, "the entries are not there")
        self.names = self._prepared()
        self._clients = {host: enter(ClientFrom(port, host)) for host in hosts}

    def _has(self, count: int) -> bool:
        return count_of_acls(self._admin) == count

    def _prepared(self) -> dict[str, Names]:
        made = {"name": EXISTING, "num_partitions": 1, "replication_factor": 1}
        ask(self._admin, ApiKey.CREATE_TOPICS, 7, topics=[made], timeout_ms=10_000)
        for key_type in (0, 1):
            found = partial(self._has_coordinator, key_type)
            wait_until(found, _ANSWER_S, "no coordinator")
        names = prepare(self._admin)
        group_there = partial(self._committed)
        wait_until(group_there, _ANSWER_S, "no committed offset")
        return names

    def _has_coordinator(self, key_type: int) -> bool:
        answer = ask(self._admin, ApiKey.FIND_COORDINATOR, 3, key=EXISTING, key_type=key_type)
        return cast("dict[str, Plain]", answer)["error_code"] == 0

    def _committed(self) -> bool:
        prepare(self._admin)
        answer = ask(
            self._admin,
            ApiKey.OFFSET_FETCH,
            7,
            group_id=EXISTING,
            topics=[{"name": EXISTING, "partition_indexes": [0]}],
        )
        return "'committed_offset': 1" in repr(answer)

    def answer(self, host: str, case: Case, names: Names) -> Plain:
        return answer_to(self._clients[host], case, names)


def comparable(answer: Plain) -> Plain:
    """An answer without sentences, drawn ids and the order of lists."""
    if isinstance(answer, dict):
        return {
            name: comparable(value)
            for name, value in answer.items()
            if name not in ("error_message", "producer_id", "members", "log_append_time_ms")
        }
    if isinstance(answer, list):
        return sorted(map(comparable, answer), key=repr)
    return answer


def denied_differently(theirs: Plain, own: Plain) -> list[str]:
    """Where the two do not say the same, if one of them denies."""
    if denials(theirs) or denials(own):
        return differences(comparable(theirs), comparable(own))
    return []
