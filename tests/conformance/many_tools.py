"""Kafka's command-line tools, run one after another in one Java: `java/Tools.java`.

They are the same classes with the same arguments that Kafka's scripts run; only the start of a
virtual machine for each of them, which takes longer than most of them work, is saved.
"""

import base64
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tierlog.bench.broker_node import BrokerNode
from tierlog.bench.kafka_peer import RECIPE, TOOLS, kafka_jars
from tierlog.tests.compatibility import ran

_PROGRAM = Path(__file__).parent / "java" / "Tools.java"
_FLAGS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8")
_TIMEOUT_S = 120
_STOP_TIMEOUT_S = 30


class Said(NamedTuple):
    """How a tool ended and what it printed."""

    code: int
    out: str
    errors: str

    @property
    def text(self) -> str:
        return self.out + self.errors


class ManyTools:
    """A Java that runs tools until it is left."""

    def __init__(self) -> None:
        logging = f"-Dlog4j2.configurationFile={RECIPE / 'log4j2.properties'}"
        self._process = subprocess.Popen(
            ["java", *_FLAGS, logging, "-cp", f"{kafka_jars()}/*", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = ThreadPoolExecutor(1)

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Said:
        """Run a tool, by its usual name, to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        ran.record_tool(tool, arguments)
        words = (TOOLS[tool], stdin, *arguments)
        line = " ".join(base64.b64encode(word.encode()).decode() for word in words)
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        answer = self._reader.submit(self._process.stdout.readline).result(_TIMEOUT_S)
        code, out, errors = answer.decode().rstrip("\n").split(" ")
        return Said(int(code), _decoded(out), _decoded(errors))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        if kind is not None:
            # It may be in the middle of a tool that does not end.
            self._process.kill()
        self._process.wait(_STOP_TIMEOUT_S)
        self._process.stdout.close()
        self._reader.shutdown()


def _decoded(word: str) -> str:
    return base64.b64decode(word).decode()


class ToolsOnBoth:
    """The same tool asked of Kafka and of us."""

    def __init__(self, tools: ManyTools, kafka: BrokerNode, ours: BrokerNode) -> None:
        self._tools = tools
        self.nodes = (kafka, ours)

    def said(self, tool: str, *arguments: str, stdin: str = "") -> tuple[Said, Said]:
        """What it says of Kafka, and of us."""
        kafka, ours = (
            self._tools.run(tool, *_server(tool, node), *arguments, stdin=stdin)
            for node in self.nodes
        )
        return kafka, ours

    def same(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Assert that it says the same of both, but for ports; what it says."""
        kafka, ours = (
            (said.code, _without_own(said.text, node))
            for said, node in zip(self.said(tool, *arguments, stdin=stdin), self.nodes, strict=True)
        )
        assert ours == kafka
        return ours[1]


# The console consumer counts on from one run to the next.
_COUNTED = re.compile(r"Processed a total of \d+ messages\n")


def _without_own(text: str, node: BrokerNode) -> str:
    return _COUNTED.sub("", text).replace(str(node.port), "PORT")


def _server(tool: str, node: BrokerNode) -> Sequence[str]:
    if tool == "kafka-producer-perf-test":
        return ("--command-property", f"bootstrap.servers={node.bootstrap}")
    return ("--bootstrap-server", node.bootstrap)
