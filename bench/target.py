"""What a scenario is measured at: a broker that the harness starts, or one that runs somewhere.

A `Target` is what the user names; `prepare` makes of it a `RunningTarget`, on a folder of its own,
that can be started, asked what it has used, and ended. Scenarios know no more of a broker than
that, so that any Kafka-compatible one can be measured.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

from .broker_node import BrokerNode
from .process_usage import Usage

Capability = Literal["start", "tier", "durable", "usage", "cluster"]
"""start: the harness starts it, and may kill it; tier: it has a remote tier; durable: it finds its
records again after a restart; usage: its CPU and memory can be read; cluster: several nodes of it
can be started."""


class TargetUnavailableError(Exception):
    """The target cannot be measured here; the sentence says what is missing and how to get it."""


class MeasurementError(Exception):
    """A run does not count: a client died, a record was lost, nothing came."""


class Target(Protocol):
    """What can be started, or is somewhere."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    def check(self) -> None:
        """Get what it needs. Raises TargetUnavailableError if that cannot be had."""
        ...

    def versions(self) -> Mapping[str, str]:
        """What runs there, by name."""
        ...

    def prepare(
        self, directory: Path, properties: Mapping[str, str], tier: str | None
    ) -> "RunningTarget":
        """A broker that keeps everything under `directory`, not yet started.

        `properties` win over what the target sets itself; `tier` is the URL of its remote tier,
        None if it shall have none.
        """
        ...


class RunningTarget(Protocol):
    """One broker. Only `name`, `bootstrap` and the topic's questions work for one elsewhere."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, as clients want it."""
        ...

    @property
    def directory(self) -> Path:
        """Its own folder, in which a scenario may also put what it needs."""
        ...

    @property
    def node(self) -> BrokerNode | None:
        """Its process; None if that is elsewhere."""
        ...

    def start(self) -> float:
        """Start it; seconds from the process's birth to its first Metadata answer."""
        ...

    def stop(self) -> None:
        """End it cleanly. Does nothing if it does not run."""
        ...

    def kill(self) -> None:
        """End it as a crash would."""
        ...

    def is_alive(self) -> bool: ...

    def pids(self) -> tuple[int, ...]:
        """Its processes, by which the runner sees that none was replaced; empty if elsewhere."""
        ...

    def usage(self) -> Usage | None:
        """What its processes have used so far; None if that cannot be read."""
        ...

    def topic_config(self, tiered: bool) -> dict[str, str]:
        """What a topic of the benchmark is created with; a scenario adds its own."""
        ...

    def bytes_in_tier(self, topic: str) -> int:
        """How much of the topic's log lies in the tier, as the tier itself shows it."""
        ...

    def log_tail(self) -> str:
        """What it said last; empty if that cannot be read."""
        ...

    def discard(self) -> None:
        """Delete all that it kept, here and in its tier. It was stopped before."""
        ...
