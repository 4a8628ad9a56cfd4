"""Who may do what is decided as by Apache Kafka with its StandardAuthorizer, request by request.

Both have the same access control entries, made over the wire. Nobody has a name on a plaintext
listener, so a client is told from another by the address it comes from: each address has other
rights, from none to those that some API needs. Every request of the matrix is sent from each
address to both, about names that are there and that are not.
"""

import socket
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from tierlog.bench.kafka_peer import KafkaNode
from tierlog.clients.protocol.api import ApiKey

from ..broker.security.access_cases import (
    DESCRIBE,
    EXISTING,
    MISSING,
    Case,
    Names,
    Right,
    cluster,
    group,
    topic,
    transaction,
)
from ..broker.security.access_matrix import CASES
from ..broker.security.ruled_broker import PROPERTIES, answer_to, ask, denials, prepare
from ..broker_process import BrokerThread, RawClient
from ..waiting import wait_until
from .side_by_side import Plain, differences

pytestmark = [
    pytest.mark.requires("java", "mvn"),
    pytest.mark.long,
    # About seven thousand requests to each: minutes on a machine that does much else.
    pytest.mark.timeout(1800),
]

NODE = {
    **PROPERTIES,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
BROKER, ADMINISTRATOR = "127.0.0.1", "127.0.0.2"
"""The addresses that may do everything: Kafka's own nodes speak to each other from the first."""

CHANGES_WHAT_IS_THERE = frozenset({ApiKey.DELETE_TOPICS, ApiKey.DELETE_GROUPS})
KINDS = (2, 3, 4, 5)
_ANSWER_S = 180
"""How long an answer may take: Kafka is slow on a busy machine."""
_SHOWN_MAX = 200
Rights = frozenset[tuple[int, int]]
"""Operations on types of resources."""


class ClientFrom(RawClient):
    """A connection from an address of this machine."""

    def __init__(self, port: int, host: str) -> None:
        super().__init__(port)
        self.socket.close()
        where = ("127.0.0.1", port)
        self.socket = socket.create_connection(where, _ANSWER_S, source_address=(host, 0))


def kinds_of(rights: Iterable[Right]) -> Rights:
    return frozenset((int(each.operation), int(each.resource.type)) for each in rights)


def all_rights() -> list[Rights]:
    """None, everything described, what some API needs, and each part of that alone."""
    described = [make(DESCRIBE, EXISTING) for make in (topic, group, transaction)]
    enough = [kinds_of(rights) for case in CASES for rights in case.needs(EXISTING)]
    parts = [frozenset({part}) for rights in enough for part in rights]
    sets = [
        frozenset[tuple[int, int]](),
        kinds_of([*described, cluster(DESCRIBE)]),
        *enough,
        *parts,
    ]
    return list(dict.fromkeys(sets))


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


def entries(hosts: dict[str, Rights]) -> list[dict[str, object]]:
    everything = [
        entry(kind, "kafka-cluster" if kind == 4 else "*", 2, host)
        for kind in KINDS
        for host in (BROKER, ADMINISTRATOR)
    ]
    some = [
        entry(kind, name, operation, host)
        for host, rights in hosts.items()
        for operation, kind in sorted(rights)
        for name in (["kafka-cluster"] if kind == 4 else [EXISTING, MISSING])
    ]
    return everything + some


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

    def __init__(self, port: int, hosts: dict[str, Rights], stack: ExitStack) -> None:
        enter = stack.enter_context
        self._admin = enter(ClientFrom(port, ADMINISTRATOR))
        made = entries(hosts)
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

    def answer(self, host: str, case: Case, name: str) -> Plain:
        return answer_to(self._clients[host], case, self.names[name])


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


def offences(kafka: Cluster, ours: Cluster, hosts: dict[str, Rights], case: Case) -> list[str]:
    """Where the two do not say the same of a request that one of them denies."""
    names = (MISSING,) if case.key in CHANGES_WHAT_IS_THERE else (EXISTING, MISSING)
    lines: list[str] = []
    for host, rights in hosts.items():
        for name in names:
            theirs, own = kafka.answer(host, case, name), ours.answer(host, case, name)
            if denials(theirs) or denials(own):
                differing = differences(comparable(theirs), comparable(own))
                lines += [f"{case}, {sorted(rights)}, {name}: {line}" for line in differing]
    return lines


def test_kafka_answers_alike_whatever_the_client_may_do(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    hosts = {f"127.0.1.{number}": rights for number, rights in enumerate(all_rights(), 1)}
    with (
        KafkaNode(tmp_path / "kafka", properties=NODE, heap="512m") as kafka_node,
        BrokerThread(tmp_path / "ours", NODE) as our_node,
        ExitStack() as stack,
    ):
        kafka = Cluster(kafka_node.port, hosts, stack)
        ours = Cluster(our_node.port, hosts, stack)
        found = [line for case in CASES for line in offences(kafka, ours, hosts, case)]
    assert not found, "\n".join(found[:_SHOWN_MAX])
