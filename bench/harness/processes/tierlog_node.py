"""A tierlog broker in a separate process, started as a user would start it."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from .broker_node import BrokerNode


class TierlogNode(BrokerNode):
    """`tierlog serve` on 127.0.0.1 with its data in `logs` and its tier in `remote`."""

    def __init__(
        self, directory: Path, *, properties: Mapping[str, str] | None = None, port: int = 0
    ) -> None:
        super().__init__(directory, port)
        self._stated = dict(properties or {})

    def properties(self) -> Mapping[str, str]:
        return {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.directory / "logs"),
            "rsm.config.url": (self.directory / "remote").resolve().as_uri(),
            "group.initial.rebalance.delay.ms": "0",
            **self._stated,
        }

    def command(self, configuration: Path) -> list[str]:
        return tierlog_command("serve", "--config", str(configuration))

    def environment(self) -> Mapping[str, str]:
        return user_environment()


def tierlog_command(*arguments: str) -> list[str]:
    """The command line of the installed `tierlog`, which is next to the current interpreter."""
    return [str(Path(sys.executable).with_name("tierlog")), *arguments]


def user_environment() -> dict[str, str]:
    """The environment of a user's shell: bytecode is cached, and output is not buffered."""
    inherited = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**inherited, "PYTHONUNBUFFERED": "1"}
