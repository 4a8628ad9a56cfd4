"""Partition changes that `PartitionChangeBuilder` of Kafka 4.3.1 has built, and ours beside them.

The cases are random ones. A line of the golden file has the partition, the target, and Kafka's
record; their fields are those of `CASE` and `RECORD`, `-` is null. Kafka was run with metadata
version 4.3 and a leader acceptor that takes active brokers with a replica of the partition.

Three differences are wanted. Kafka keeps removed replicas as eligible leaders (and may even leave
the leadership with one: such cases are left out). It keeps eligible leaders when an election from
among them makes the ISR large enough. And it notes "no leader" as the last known leader.
"""

from typing import NamedTuple

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.control.leadership.partition_change import (
    Election,
    LiveBrokers,
    PartitionRules,
    PartitionTarget,
    build_change,
)
from tierlog.replication.metadata.cluster_image import (
    BrokerImage,
    PartitionImage,
    changed_partition,
)
from tierlog.replication.metadata.metadata_records import NO_LEADER, PartitionChangeRecord
from tierlog.tests.house_rules import ROOT

GOLDEN = ROOT / "tests" / "golden" / "controller" / "partition_changes.txt"
CASE: tuple[str, ...] = (
    "replicas",
    "isr",
    "leader",
    "elr",
    "last_known",
    "adding",
    "removing",
    "recovery",
    "isr_target",
    "replicas_target",
    "adding_target",
    "removing_target",
    "recovery_target",
    "election",
    "min_isr",
    "has_elr",
    "active",
    "unclean",
)
RECORD: tuple[str, ...] = (
    "isr",
    "leader",
    "replicas",
    "adding",
    "removing",
    "elr",
    "last_known",
    "recovery",
)
BROKERS = range(1, 6)


class Case(NamedTuple):
    """One line of the golden file."""

    case: dict[str, str]
    # None if Kafka has found nothing to change.
    record: dict[str, str] | None


def cases() -> list[Case]:
    found: list[Case] = []
    for line in GOLDEN.read_text().splitlines():
        case, _, record = line.partition(" -> ")
        fields = dict(zip(CASE, case.split("|"), strict=True))
        values = None if record == "none" else dict(zip(RECORD, record.split("|"), strict=True))
        found.append(Case(fields, values))
    return found


def numbers(text: str) -> list[int] | None:
    return None if text == "-" else [int(each) for each in text.split(",") if each]


def directory(broker_id: int) -> Uuid:
    return Uuid(bytes([broker_id]) * 16)


def partition_of(case: dict[str, str]) -> PartitionImage:
    names = ("replicas", "isr", "elr", "last_known", "adding", "removing")
    replicas, isr, elr, last_known, adding, removing = (
        tuple(numbers(case[name]) or ()) for name in names
    )
    return PartitionImage(
        replicas,
        isr,
        int(case["leader"]),
        5,
        5,
        elr,
        last_known,
        adding,
        removing,
        tuple(map(directory, replicas)),
        int(case["recovery"]),
    )


def ours(case: dict[str, str], before: PartitionImage) -> PartitionChangeRecord | None:
    recovery = case["recovery_target"]
    target = PartitionTarget(
        numbers(case["isr_target"]),
        numbers(case["replicas_target"]),
        numbers(case["adding_target"]),
        numbers(case["removing_target"]),
        None if recovery == "-" else int(recovery),
        unclean_shutdown=numbers(case["unclean"]) or (),
    )
    active = numbers(case["active"]) or ()
    brokers = {
        each: BrokerImage(each, 1, Uuid(bytes(16)), {}, None, each not in active)
        for each in BROKERS
    }
    rules = PartitionRules(int(case["min_isr"]), case["has_elr"] == "1")
    return build_change(before, target, Election[case["election"]], rules, LiveBrokers(brokers))


def theirs(record: dict[str, str]) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        isr=numbers(record["isr"]),
        leader=int(record["leader"]),
        replicas=numbers(record["replicas"]),
        adding_replicas=numbers(record["adding"]),
        removing_replicas=numbers(record["removing"]),
        eligible_leader_replicas=numbers(record["elr"]),
        last_known_elr=numbers(record["last_known"]),
        leader_recovery_state=int(record["recovery"]),
    )


class Outcome(NamedTuple):
    """What a change comes to, whatever fields its record repeats."""

    isr: tuple[int, ...]
    leader: tuple[int, int]
    replicas: tuple[tuple[int, ...], ...]
    elr: set[int]
    last_known: tuple[int, ...]
    recovery: int


def outcome(before: PartitionImage, record: PartitionChangeRecord | None) -> Outcome:
    after = before if record is None else changed_partition(before, record)
    return Outcome(
        after.isr,
        (after.leader, after.leader_epoch),
        (after.replicas, after.adding_replicas, after.removing_replicas),
        set(after.elr),
        after.last_known_elr,
        after.leader_recovery_state,
    )


def as_wanted(kafka: Outcome, before: PartitionImage, min_isr: int) -> Outcome:
    """Kafka's outcome without the differences that are wanted."""
    elr = kafka.elr & set(kafka.replicas[0])
    if len(kafka.isr) >= min_isr:
        elr = set[int]()
    is_nobody = kafka.last_known == (NO_LEADER,)
    last_known = before.last_known_elr if is_nobody else kafka.last_known
    return kafka._replace(elr=elr, last_known=last_known)


@pytest.mark.parametrize("has_elr", ["0", "1"])
def test_changes_come_to_what_kafka_makes_of_them(has_elr: str) -> None:
    chosen = [each for each in cases() if each.case["has_elr"] == has_elr]
    assert len(chosen) > 100
    for each in chosen:
        before = partition_of(each.case)
        record = None if each.record is None else theirs(each.record)
        expected = as_wanted(outcome(before, record), before, int(each.case["min_isr"]))
        assert outcome(before, ours(each.case, before)) == expected, each.case
