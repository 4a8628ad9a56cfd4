"""Who may do what to names that no topic can have is decided as by Apache Kafka.

Such a name stands in no metadata, but a client may ask about it, and entries cover it or not.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tierlog.bench.kafka_peer import KafkaNode
from tierlog.clients.kafka_uuid import ZERO_UUID

from ..broker.security.access_cases import Case, Names
from ..broker.security.access_matrix import CASES
from ..broker_process import BrokerThread
from .access_twins import NODE, Cluster, denied_differently, entry

pytestmark = [
    pytest.mark.requires("java", "mvn"),
    pytest.mark.long,
    pytest.mark.timeout(900),
]

NAMES = ("", "*x", "*", "..", "a b", "x" * 250)
TOPIC, GROUP, TRANSACTION = 2, 3, 5
ALL_OPERATIONS = 2
_SHOWN_MAX = 200
ENTRIES: dict[str, list[tuple[str, int]]] = {
    "nothing": [],
    "the wildcard": [("*", 3)],
    "the name": [(name, 3) for name in NAMES if name not in ("", "*")],
    "every prefix": [(letter, 4) for letter in "*.ax"],
}
"""Names and types of patterns, by what they cover."""


def entries(hosts: dict[str, str]) -> list[dict[str, object]]:
    return [
        entry(kind, name, ALL_OPERATIONS, host) | {"resource_pattern_type": pattern}
        for host, covered in hosts.items()
        for name, pattern in ENTRIES[covered]
        for kind in (TOPIC, GROUP, TRANSACTION)
    ]


def offences(kafka: Cluster, ours: Cluster, hosts: dict[str, str], case: Case) -> list[str]:
    lines: list[str] = []
    for host, covered in hosts.items():
        for name in NAMES:
            names = Names(name, ZERO_UUID)
            theirs, own = kafka.answer(host, case, names), ours.answer(host, case, names)
            differing = denied_differently(theirs, own)
            lines += [f"{case}, {covered}, {name!r}: {line}" for line in differing]
    return lines


def test_names_that_no_topic_can_have_are_denied_alike(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    hosts = {f"127.0.1.{number}": covered for number, covered in enumerate(ENTRIES, 1)}
    with (
        KafkaNode(tmp_path / "kafka", properties=NODE, heap="512m") as kafka_node,
        BrokerThread(tmp_path / "ours", NODE) as our_node,
        ExitStack() as stack,
    ):
        made = entries(hosts)
        kafka = Cluster(kafka_node.port, hosts, made, stack)
        ours = Cluster(our_node.port, hosts, made, stack)
        found = [line for case in CASES for line in offences(kafka, ours, hosts, case)]
    assert not found, "\n".join(found[:_SHOWN_MAX])
