"""`tierlog tier` as a user runs it, beside a node of theirs."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from tierlog.bench.harness.processes.tierlog_node import TierlogNode


class Answer(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    output: str
    errors: str

    @property
    def fields(self) -> dict[str, Any]:
        """What `--json` says."""
        return cast("dict[str, Any]", json.loads(self.output))


def tier(node: TierlogNode, *words: str, overrides: Sequence[str] = ()) -> Answer:
    """Run a command with the node's own configuration."""
    configuration = node.directory / "server.properties"
    command = [str(Path(sys.executable).with_name("tierlog")), "tier", *words]
    command += ["--config", str(configuration)]
    command += [word for each in overrides for word in ("--override", each)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=node.environment(), check=False
    )
    return Answer(done.returncode, done.stdout, done.stderr)
