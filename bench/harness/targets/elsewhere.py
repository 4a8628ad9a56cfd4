"""A broker that is already running, here or on another machine, given as HOST:PORT.

The harness neither starts nor stops it and cannot see its processes: there are no CPU and memory
figures, and scenarios that start or kill a broker are not run. The benchmark creates and deletes
its own topics, and changes nothing else.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..measurement_error import MeasurementError
from ..processes.broker_node import BrokerNode
from ..processes.process_usage import Usage
from ..requests.probe import answers_metadata
from .node_target import topic_config
from .target import Capability, TargetUnavailableError


class ElsewhereTarget:
    """The broker at an address."""

    def __init__(self, address: str) -> None:
        self.name = address
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._capabilities: frozenset[Capability] = frozenset({"durable"})

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._capabilities

    def check(self) -> None:
        """Check whether it answers, and whether it has a tier."""
        if not answers_metadata(self._host, self._port):
            raise TargetUnavailableError(
                f"No Kafka broker answers at {self.name}; is it running, and is the port that of "
                "a listener without TLS and SASL?"
            )
        from ..requests.tier_question import takes_tiered_topics

        if takes_tiered_topics(self.name):
            self._capabilities = frozenset({"durable", "tier"})

    def versions(self) -> Mapping[str, str]:
        return {}

    def prepare(
        self, directory: Path, properties: Mapping[str, str], tier: str | None
    ) -> "Elsewhere":
        return Elsewhere(self.name, directory)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The running broker, for a scenario."""

    name: str
    directory: Path
    node: BrokerNode | None = None

    @property
    def bootstrap(self) -> str:
        return self.name

    def start(self) -> float:
        self.directory.mkdir(parents=True, exist_ok=True)
        return 0.0

    def stop(self) -> None:
        """Do nothing: the broker keeps running."""

    def kill(self) -> None:
        raise MeasurementError(f"{self.name} is not ours to kill.")

    def is_alive(self) -> bool:
        host, _, port = self.name.rpartition(":")
        return answers_metadata(host, int(port))

    def pids(self) -> tuple[int, ...]:
        return ()

    def usage(self) -> Usage | None:
        return None

    def topic_config(self, tiered: bool) -> dict[str, str]:
        return topic_config(tiered)

    def bytes_in_tier(self, topic: str) -> int:
        raise MeasurementError(f"The tier of {self.name} cannot be inspected from here.")

    def log_tail(self) -> str:
        return ""

    def discard(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
