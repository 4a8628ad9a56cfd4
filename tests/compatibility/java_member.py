"""A member of a group that is Kafka's own Java consumer: `java/Member.java`, compiled once."""

from collections.abc import Mapping
from pathlib import Path

from tierlog.bench.harness.processes.kafka_peer import RECIPE, kafka_jars, quick_flags

from .foreign_members import ready

HEARTBEAT_MS = 500
EXIT_CODE_ON_SIGTERM = 128 + 15
FLAGS = ("-Xmx128m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_ASSIGNORS = "org.apache.kafka.clients.consumer."


def compiled() -> Path:
    """The folder with the classes of `java/`."""
    sources = ("Member.java", "Copier.java")
    command = ("javac", "-d", ".", "-cp", f"{kafka_jars()}/*", *sources)
    return ready("java", command)


def java_member(
    topic: str, properties: Mapping[str, str], strategy: str, protocol: str
) -> list[str]:
    """The command that runs a member; `strategy` is the name of an assignor's class, or ours."""
    stated = {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "max.poll.records": "100",
        "metadata.max.age.ms": "1000",
        "group.protocol": protocol,
        **properties,
    }
    if protocol == "consumer":
        stated["group.remote.assignor"] = strategy
    else:
        stated["partition.assignment.strategy"] = _ASSIGNORS + strategy
        stated["heartbeat.interval.ms"] = str(HEARTBEAT_MS)
    return [*_program("Member"), topic, *(f"{name}={value}" for name, value in stated.items())]


def java_copier(bootstrap: str, source: str, target: str, name: str, batch: int) -> list[str]:
    """The command that copies a topic in transactions, and prints a line for each."""
    return [*_program("Copier"), bootstrap, source, target, name, str(batch)]


def _program(main_class: str) -> list[str]:
    logging = f"-Dlog4j2.configurationFile={RECIPE / 'log4j2.properties'}"
    # Kafka's jars first: the archive of their classes is good for no other beginning.
    classes = f"{kafka_jars()}/*:{compiled()}"
    return ["java", *FLAGS, *quick_flags(), logging, "-cp", classes, main_class]
