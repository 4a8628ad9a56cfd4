"""A broker that is none: it says what it was told to say, and dies when it was told to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.process_usage import Usage
from tierlog.bench.harness.requests.probe import NotUpError
from tierlog.bench.harness.targets.target import Capability


@dataclass
class FakeRunning:
    """One start of it after another has another process id, as with any process."""

    name: str
    directory: Path
    bootstrap: str = "127.0.0.1:1"
    tier: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    starts: int = 0
    stops: int = 0
    alive: bool = False
    discarded: bool = False
    stillborn: bool = False
    node: BrokerNode | None = None

    def start(self) -> float:
        if self.stillborn:
            raise NotUpError("No Metadata answer.")
        self.starts += 1
        self.alive = True
        return 0.25

    def stop(self) -> None:
        self.stops += self.alive
        self.alive = False

    def kill(self) -> None:
        self.alive = False

    def is_alive(self) -> bool:
        return self.alive

    def pids(self) -> tuple[int, ...]:
        return (self.starts,)

    def usage(self) -> Usage | None:
        return None

    def topic_config(self, tiered: bool) -> dict[str, str]:
        return {"remote.storage.enable": "true"} if tiered else {}

    def bytes_in_tier(self, topic: str) -> int:
        return len(topic)

    def log_tail(self) -> str:
        return f"last words of {self.name}"

    def discard(self) -> None:
        assert not self.alive, "It was stopped before."
        self.discarded = True


@dataclass
class FakeTarget:
    """Prepares such brokers, and remembers all of them in order."""

    name: str = "fake"
    capabilities: frozenset[Capability] = frozenset({"start", "tier"})
    stillborn: bool = False
    prepared: list[FakeRunning] = field(default_factory=list[FakeRunning])

    def check(self) -> None:
        return

    def versions(self) -> Mapping[str, str]:
        return {self.name: "1.0"}

    def prepare(
        self, directory: Path, properties: Mapping[str, str], tier: str | None
    ) -> FakeRunning:
        running = FakeRunning(self.name, directory, properties=dict(properties), tier=tier)
        running.stillborn = self.stillborn
        self.prepared.append(running)
        return running
