"""Who may do what to names that no topic can have is decided as by Apache Kafka.

Such a name stands in no metadata, but a client may ask about it, and entries cover it or not. The
one difference is a name that begins with an asterisk: Kafka passes over the wildcard's entries,
those that allow and those that deny, because it takes `*` for a part of the name.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.protocol.api import ApiKey
from tierlog.tests.recordings.kafka_node import kafka_node

from ..broker_process import BrokerThread
from ..security.access_cases import (
    EXISTING,
    GROUP_DENIED,
    READ,
    Case,
    Names,
    case,
    of_group,
    one,
)
from ..security.access_matrix import CASES
from ..security.ruled_broker import denials
from .access_twins import NODE, Cluster, denied_differently, entry

pytestmark = [
    pytest.mark.requires("java", "mvn"),
    pytest.mark.long,
    pytest.mark.timeout(900),
]

NAMES = ("", "*x", "*", "..", "a b", "x" * 250)
WILDCARD = "the wildcard"
NOT_COVERED_BY_KAFKAS_WILDCARD = "*x"
TOPIC, GROUP, TRANSACTION = 2, 3, 5
ALL_OPERATIONS = 2
_SHOWN_MAX = 200
ENTRIES: dict[str, list[tuple[str, int]]] = {
    "nothing": [],
    WILDCARD: [("*", 3)],
    "the name": [(name, 3) for name in NAMES if name not in ("", "*")],
    "every prefix": [(letter, 4) for letter in "*.ax"],
}
"""Names and types of patterns, by what they cover."""


_OFFSETS = {"group_id": EXISTING, "member_id": "", "generation_id_or_member_epoch": -1}


def _of_group_that_is_there() -> list[Case]:
    """The topic alone has the odd name."""
    needs = one(of_group(READ))
    return [
        *case(
            ApiKey.OFFSET_FETCH,
            (1, 7),
            GROUP_DENIED,
            needs,
            lambda n: {
                "group_id": EXISTING,
                "topics": [{"name": n.name, "partition_indexes": [0]}],
            },
        ),
        *case(
            ApiKey.OFFSET_FETCH,
            (8, 9),
            GROUP_DENIED,
            needs,
            lambda n: {
                "groups": [
                    {
                        "group_id": EXISTING,
                        "topics": [{"name": n.name, "partition_indexes": [0]}],
                    }
                ]
            },
        ),
        *case(
            ApiKey.OFFSET_COMMIT,
            (2, 9),
            GROUP_DENIED,
            needs,
            lambda n: {
                **_OFFSETS,
                "topics": [{"name": n.name, "partitions": [{"partition_index": 0}]}],
            },
        ),
        *case(
            ApiKey.OFFSET_DELETE,
            (0,),
            GROUP_DENIED,
            needs,
            lambda n: {
                "group_id": EXISTING,
                "topics": [{"name": n.name, "partitions": [{"partition_index": 0}]}],
            },
        ),
    ]


def entries(hosts: dict[str, str]) -> list[dict[str, object]]:
    return [entry(GROUP, EXISTING, ALL_OPERATIONS, host) for host in hosts] + [
        entry(kind, name, ALL_OPERATIONS, host) | {"resource_pattern_type": pattern}
        for host, covered in hosts.items()
        for name, pattern in ENTRIES[covered]
        for kind in (TOPIC, GROUP, TRANSACTION)
    ]


def offences(kafka: Cluster, ours: Cluster, hosts: dict[str, str], asked: Case) -> list[str]:
    lines: list[str] = []
    for host, covered in hosts.items():
        for name in NAMES:
            names = Names(name, ZERO_UUID)
            theirs, own = kafka.answer(host, asked, names), ours.answer(host, asked, names)
            differing = denied_differently(theirs, own)
            if (covered, name) == (WILDCARD, NOT_COVERED_BY_KAFKAS_WILDCARD):
                assert denials(theirs) or not denials(own), f"{asked}: Kafka has changed"
                continue
            lines += [f"{asked}, {covered}, {name!r}: {line}" for line in differing]
    return lines


def test_names_that_no_topic_can_have_are_denied_alike(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    hosts = {f"127.0.1.{number}": covered for number, covered in enumerate(ENTRIES, 1)}
    with (
        kafka_node(tmp_path / "kafka", properties=NODE) as their_node,
        BrokerThread(tmp_path / "ours", NODE) as our_node,
        ExitStack() as stack,
    ):
        made = entries(hosts)
        kafka = Cluster(their_node.port, hosts, made, stack)
        ours = Cluster(our_node.port, hosts, made, stack)
        cases = [*CASES, *_of_group_that_is_there()]
        found = [line for each in cases for line in offences(kafka, ours, hosts, each)]
    assert not found, "\n".join(found[:_SHOWN_MAX])
