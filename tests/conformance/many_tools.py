"""Kafka's command-line tools, run one after another in one Java: `java/Tools.java`.

They are the same classes with the same arguments that Kafka's scripts run; only the start of a
virtual machine for each of them, which takes longer than most of them work, is saved.
"""

import base64
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import RECIPE, TOOLS, kafka_jars
from tierlog.tests.compatibility import ran

_PROGRAM = Path(__file__).parent / "java" / "Tools.java"
_FLAGS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8")
_TIMEOUT_S = 180
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
    """A Java that runs tools until it is left; a tool that does not end is given another."""

    def __init__(self) -> None:
        self._process = self._started()

    @staticmethod
    def _started() -> subprocess.Popen[bytes]:
        logging = f"-Dlog4j2.configurationFile={RECIPE / 'log4j2.properties'}"
        return subprocess.Popen(
            ["java", *_FLAGS, logging, "-cp", f"{kafka_jars()}/*", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Said:
        """Run a tool, by its usual name, to its end."""
        if self._process.poll() is not None:
            self._process = self._started()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        ran.record_tool(tool, arguments)
        words = (TOOLS[tool], stdin, *arguments)
        line = " ".join(base64.b64encode(word.encode()).decode() for word in words)
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        # A tool that does not end would be in the way of all others.
        watchdog = threading.Timer(_TIMEOUT_S, self._process.kill)
        watchdog.start()
        answer = self._process.stdout.readline()
        watchdog.cancel()
        if not answer:
            self._process.communicate()
        assert answer, f"{tool} {arguments} did not end"
        code, out, errors = answer.decode().rstrip("\n").split(" ")
        return Said(int(code), _decoded(out), _decoded(errors))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def _decoded(word: str) -> str:
    return base64.b64decode(word).decode()


class ToolsOnBoth:
    """The same tool asked of Kafka and of us.

    `masks` are patterns of what may differ, each with what stands for it.
    """

    def __init__(
        self,
        tools: ManyTools,
        kafka: BrokerNode,
        ours: BrokerNode,
        masks: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._tools = tools
        self._masks = (_COUNTED, *masks)
        self.nodes = (kafka, ours)

    def said(self, tool: str, *arguments: str, stdin: str = "") -> tuple[Said, Said]:
        """What it says of Kafka, and of us."""
        kafka, ours = (
            self._tools.run(tool, *_asking(node, tool, arguments), stdin=stdin)
            for node in self.nodes
        )
        return kafka, ours

    def same(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Assert that it says the same of both, but for ports and masks; what it says."""
        said = self.said(tool, *arguments, stdin=stdin)
        kafka, ours = (self._masked(*each) for each in zip(said, self.nodes, strict=True))
        assert ours == kafka, f"Of Kafka it says:\n{kafka}\nand of us:\n{ours}"
        return ours

    def same_lines(self, tool: str, *arguments: str, stdin: str = "") -> list[str]:
        """The same where lines come in the order of a hash table; the lines, sorted."""
        said = self.said(tool, *arguments, stdin=stdin)
        kafka, ours = (
            sorted(self._masked(*each).splitlines()) for each in zip(said, self.nodes, strict=True)
        )
        assert ours == kafka, f"Of Kafka it says:\n{kafka}\nand of us:\n{ours}"
        return ours

    def _masked(self, said: Said, node: BrokerNode) -> str:
        text = said.text.replace(str(node.port), "PORT")
        for pattern, instead in self._masks:
            text = re.sub(pattern, instead, text)
        return text if said.code == 0 else f"{text}exit code {said.code}\n"


# The console consumer counts on from one run to the next.
_COUNTED = (r"Processed a total of \d+ messages\n", "")


def _asking(node: BrokerNode, tool: str, arguments: Sequence[str]) -> Sequence[str]:
    """The arguments and the address, where the tool wants it."""
    if tool == "kafka-producer-perf-test":
        return ("--command-property", f"bootstrap.servers={node.bootstrap}", *arguments)
    # This one wants its command first; the others that have commands want them last.
    before = 1 if tool == "kafka-cluster" else 0
    server = ("--bootstrap-server", node.bootstrap)
    return (*arguments[:before], *server, *arguments[before:])
