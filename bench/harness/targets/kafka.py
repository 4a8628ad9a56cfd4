"""Apache Kafka, fetched from Maven Central by the harness, with its LocalTieredStorage.

LocalTieredStorage is a local folder, made for Kafka's own tests. A tier elsewhere needs a
third-party plugin, so `--tier` applies to tierlog only; Kafka keeps its folder, and the report says
so.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..processes.kafka_peer import KAFKA_VERSION, KafkaNode, KafkaUnavailableError, kafka_jars
from ..processes.live_files import size_of
from .node_target import DELETE_DELAY_MS, OFTEN, OneNode, logs_of_topic
from .target import Capability, TargetUnavailableError


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """A combined broker and controller with Kafka's own start flags and 1 GiB of heap."""

    name: str = "kafka"
    capabilities: frozenset[Capability] = frozenset(
        {"start", "tier", "durable", "usage", "cluster", "quorum"}
    )

    def check(self) -> None:
        """Fetch the jars once. Raises TargetUnavailableError if that fails."""
        try:
            kafka_jars()
        except (KafkaUnavailableError, subprocess.TimeoutExpired) as error:
            raise TargetUnavailableError(
                f"{error} The target kafka needs Java 17 or newer, and Maven once "
                "(on Debian: apt-get install openjdk-17-jre-headless maven). "
                "Without them, measure tierlog alone: --target tierlog"
            ) from error

    def versions(self) -> Mapping[str, str]:
        answer = subprocess.run(
            ["java", "-version"], capture_output=True, text=True, timeout=60, check=False
        )
        match = re.search(r'"([^"]+)"', answer.stderr)
        return {"kafka": KAFKA_VERSION, "java": match[1] if match else "unknown"}

    def prepare(self, directory: Path, properties: Mapping[str, str], tier: str | None) -> OneNode:
        # The broker's delay applies to a deleted topic's files, whatever the topic's setting was.
        stated = {"log.segment.delete.delay.ms": DELETE_DELAY_MS}
        stated |= {**OFTEN, **properties} if tier else properties
        node = KafkaNode(directory, tiered=tier is not None, properties=stated)
        remote = directory / "remote"
        return OneNode(
            self.name, directory, node, lambda topic: size_of(logs_of_topic(remote, topic))
        )
