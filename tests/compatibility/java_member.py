"""A member of a group that is Kafka's own Java consumer: the tool `kafka-verifiable-consumer`.

It prints a line of JSON for each thing that happens to it, commits every batch that it has read,
and leaves the group in an orderly way on SIGTERM. Its clock shows milliseconds.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple, TypedDict

from tierlog.bench.kafka_peer import TOOLS, java_command

SESSION_MS = 6_000
EXIT_CODE_ON_SIGTERM = 128 + 15
_FLAGS = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_ASSIGNORS = "org.apache.kafka.clients.consumer."
_NANOSECONDS = 1_000_000


class Said(NamedTuple):
    """What a line means, in the words of the other clients' members."""

    at: int
    event: str
    partitions: tuple[int, ...] = ()
    offset: int = -1


class _Partition(TypedDict):
    partition: int


class _Line(TypedDict):
    """The first two are in every line, each of the others in those that it makes sense for."""

    timestamp: int
    name: str
    partitions: list[_Partition]
    partition: int
    offset: int
    success: bool


def java_member(
    bootstrap: str, topic: str, group: str, strategy: str, instance: str | None
) -> list[str]:
    """The command that runs a member; `strategy` is the name of an assignor's class."""
    arguments = [
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
        *("--session-timeout", str(SESSION_MS), "--reset-policy", "earliest", "--verbose"),
        *("--assignment-strategy", _ASSIGNORS + strategy),
    ]
    if instance is not None:
        arguments += ["--group-instance-id", instance]
    return java_command(TOOLS["kafka-verifiable-consumer"], *arguments, flags=_FLAGS)


def said(text: bytes) -> Iterator[Said]:
    """What one printed line says, if it is of interest here."""
    line: _Line = json.loads(text)
    at = line["timestamp"] * _NANOSECONDS
    partitions = tuple(sorted(each["partition"] for each in line.get("partitions", [])))
    match line["name"]:
        case "partitions_assigned":
            yield Said(at, "assigned", partitions)
        case "partitions_revoked":
            yield Said(at, "revoked", partitions)
        case "record_data":
            yield Said(at, "read", (line["partition"],), line["offset"])
        case "offsets_committed":
            yield Said(at, "committed" if line["success"] else "not committed")
        case "shutdown_complete":
            yield Said(at, "left")
        case _:
            pass
