"""The brokers that scenarios measure: started by the harness, or already running elsewhere.

The user names a `Target`; its `prepare` returns a `RunningTarget` with its own folder, which can be
started, measured and stopped. Scenarios use no other interface of a broker, so that any
Kafka-compatible one can be measured.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

from ..processes.broker_node import BrokerNode
from ..processes.process_usage import Usage

Capability = Literal["start", "tier", "durable", "usage", "cluster", "quorum"]
"""start: the harness starts the broker, and may kill it; tier: it has a remote tier; durable: it
keeps its records across a restart; usage: its CPU and memory can be read; cluster: several nodes
can be started that replicate partitions; quorum: several nodes can be started as one cluster, from
Kafka's properties files."""


class TargetUnavailableError(Exception):
    """The target cannot be measured here; the message says what is missing and how to get it."""


class Target(Protocol):
    """A broker that can be started, or that runs elsewhere."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    def check(self) -> None:
        """Fetch the software that it needs. Raises TargetUnavailableError if not possible."""
        ...

    def versions(self) -> Mapping[str, str]:
        """The versions of its software, by name."""
        ...

    def prepare(
        self, directory: Path, properties: Mapping[str, str], tier: str | None
    ) -> "RunningTarget":
        """A broker that keeps everything under `directory`, not yet started.

        `properties` override the target's own properties; `tier` is the URL of its remote tier, or
        None for no tier.
        """
        ...


class RunningTarget(Protocol):
    """One broker. If it runs elsewhere, only `name`, `bootstrap` and `topic_config` work."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, for clients."""
        ...

    @property
    def directory(self) -> Path:
        """Its own folder, which a scenario may also use."""
        ...

    @property
    def node(self) -> BrokerNode | None:
        """Its process; None if it runs elsewhere."""
        ...

    def start(self) -> float:
        """Start it; returns the seconds from process creation to the first Metadata response."""
        ...

    def stop(self) -> None:
        """Stop it cleanly, if it is running."""
        ...

    def kill(self) -> None:
        """Kill it, as in a crash."""
        ...

    def is_alive(self) -> bool: ...

    def pids(self) -> tuple[int, ...]:
        """Its process ids, to detect a replaced process; empty if it runs elsewhere."""
        ...

    def usage(self) -> Usage | None:
        """The resources used by its processes so far; None if they cannot be read."""
        ...

    def topic_config(self, tiered: bool) -> dict[str, str]:
        """The configuration of a new topic, to which a scenario adds its own."""
        ...

    def bytes_in_tier(self, topic: str) -> int:
        """The bytes of the topic's log in the tier, according to the tier itself."""
        ...

    def log_tail(self) -> str:
        """The end of its log; empty if it cannot be read."""
        ...

    def discard(self) -> None:
        """Delete all its data, here and in its tier, after it was stopped."""
        ...
