"""Who may do what is decided as by Apache Kafka with its StandardAuthorizer, request by request.

Both have the same access control entries, made over the wire. Each address has other rights, from
none to those that some API needs. Every request of the matrix is sent from each address to both,
about names that are there and that are not.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tierlog.clients.protocol.api import ApiKey
from tierlog.tests.recordings.kafka_node import kafka_node

from ..broker_process import BrokerThread
from ..security.access_cases import (
    DESCRIBE,
    EXISTING,
    MISSING,
    Case,
    Right,
    cluster,
    group,
    topic,
    transaction,
)
from ..security.access_matrix import CASES
from .access_twins import NODE, Cluster, denied_differently, entry

pytestmark = [
    pytest.mark.requires("java", "mvn"),
    pytest.mark.long,
    # About seven thousand requests to each: minutes on a machine that does much else.
    pytest.mark.timeout(1800),
]

CHANGES_WHAT_IS_THERE = frozenset({ApiKey.DELETE_TOPICS, ApiKey.DELETE_GROUPS})
_SHOWN_MAX = 200
Rights = frozenset[tuple[int, int]]
"""Operations on types of resources."""


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


def entries(hosts: dict[str, Rights]) -> list[dict[str, object]]:
    return [
        entry(kind, name, operation, host)
        for host, rights in hosts.items()
        for operation, kind in sorted(rights)
        for name in (["kafka-cluster"] if kind == 4 else [EXISTING, MISSING])
    ]


def offences(kafka: Cluster, ours: Cluster, hosts: dict[str, Rights], case: Case) -> list[str]:
    """Where the two do not say the same of a request that one of them denies."""
    names = (MISSING,) if case.key in CHANGES_WHAT_IS_THERE else (EXISTING, MISSING)
    lines: list[str] = []
    for host, rights in hosts.items():
        for name in names:
            theirs = kafka.answer(host, case, kafka.names[name])
            own = ours.answer(host, case, ours.names[name])
            differing = denied_differently(theirs, own)
            lines += [f"{case}, {sorted(rights)}, {name}: {line}" for line in differing]
    return lines


def test_kafka_answers_alike_whatever_the_client_may_do(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    hosts = {f"127.0.1.{number}": rights for number, rights in enumerate(all_rights(), 1)}
    with (
        kafka_node(tmp_path / "kafka", properties=NODE) as their_node,
        BrokerThread(tmp_path / "ours", NODE) as our_node,
        ExitStack() as stack,
    ):
        made = entries(hosts)
        kafka = Cluster(their_node.port, hosts, made, stack)
        ours = Cluster(our_node.port, hosts, made, stack)
        found = [line for case in CASES for line in offences(kafka, ours, hosts, case)]
    assert not found, "\n".join(found[:_SHOWN_MAX])
