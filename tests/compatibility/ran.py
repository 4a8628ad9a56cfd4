"""Which clients and tools a test run has started against us, told by the processes themselves.

An audit hook sees every process that a test starts and recognises Kafka's tools by their class, and
the members of groups by their options; a test that uses a client in another way calls `record`. The
plugin hangs what was started onto the report of the test that started it, so that pytest's workers
hand it to the process that collects reports: there, only what passed counts.
"""

import json
import re
import sys
import warnings
import zipfile
from collections.abc import Generator, Iterable, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from tierlog.bench.harness.processes.kafka_peer import KAFKA_VERSION, TOOLS, kafka_jars

PROPERTY = "ran"
CONNECT = "Kafka Connect"
CLASSIC = "classic"
_EVENT = "tierlog.ran"
_KAFKA = "kafka.Kafka"
_CONNECT_CLASSES = "org.apache.kafka.connect.cli.Connect"
_TOOL_OF_CLASS = {main_class: tool for tool, main_class in TOOLS.items()}
# It only prepares the Kafka that we are compared with.
_NOT_OF_INTEREST = frozenset({"kafka-storage"})
_JAVA_CONSUMERS = frozenset(
    {"kafka-verifiable-consumer", "kafka-console-consumer", "kafka-consumer-perf-test"}
)
_PYTHON_MODULES = {
    "confluent": ("confluent-kafka", "confluent_kafka"),
    "kafka-python": ("kafka-python", "kafka"),
    "aiokafka": ("aiokafka", "aiokafka"),
}
_GROUP_PROTOCOL = re.compile(r"(?:^|[=\s,])group\.protocol=(\w+)")


class Ran(NamedTuple):
    """One use of one client or tool."""

    name: str
    version: str
    protocol: str = ""
    """Of groups: `classic` or `consumer`; nothing where no group was in play."""
    did: str = ""


_started: list[Ran] = []
_ports_of_kafka: set[int] = set()


def record(name: str, version: str, *, protocol: str = "", did: str = "") -> None:
    """Say that the running test uses a client or tool against us."""
    # By way of the hook: tests may know this module under another name.
    sys.audit(_EVENT, name, version, protocol, did)


def record_tool(tool: str, arguments: Sequence[str]) -> None:
    """Say that the running test runs one of Kafka's tools where no new process shows it."""
    for use in _tool(tool, arguments):
        record(use.name, use.version, protocol=use.protocol, did=use.did)


def uses_of(command: Sequence[str]) -> list[Ran]:
    """What starting a process with that command line means; nothing for most."""
    member = _member_options(command)
    if member is not None:
        return _member(command, member)
    if Path(command[0]).name != "java":
        return []
    for number, word in enumerate(command):
        arguments = command[number + 1 :]
        if word == _KAFKA:
            _ports_of_kafka.update(_ports(Path(arguments[0]).read_text()))
            return []
        if word.startswith(_CONNECT_CLASSES):
            mode = word.removeprefix(_CONNECT_CLASSES).lower()
            return [Ran(CONNECT, kafka_version(), did=mode)]
        if word in _TOOL_OF_CLASS:
            return _tool(_TOOL_OF_CLASS[word], arguments)
    return []


def _ports(text: str) -> set[int]:
    return {int(port) for port in re.findall(r":(\d+)\b", text)}


def _tool(tool: str, arguments: Sequence[str]) -> list[Ran]:
    if tool in _NOT_OF_INTEREST:
        return []
    options = [word for word in arguments if word.startswith("--")]
    for option, value in pairwise(arguments):
        is_address = option in {"--bootstrap-server", "--bootstrap-controller"}
        if is_address and _ports(value) & _ports_of_kafka:
            return []
    # A tool's command comes first, or behind the address; a path would be of this run only.
    first = arguments[2:3] if list(arguments[:1]) == ["--bootstrap-server"] else arguments[:1]
    commands = [word for word in first if word[:1].isalpha() and "/" not in word]
    did = [*commands, *(option.partition("=")[0] for option in options)]
    uses = [Ran(tool, kafka_version(), did=" ".join(did))]
    if tool in _JAVA_CONSUMERS and {"--group", "--group-id"} & set(options):
        uses.append(Ran("kafka-clients", kafka_version(), _protocol(arguments)))
    return uses


def _protocol(arguments: Sequence[str]) -> str:
    for option, value in pairwise(arguments):
        if option == "--group-protocol":
            return value.lower()
    found = _GROUP_PROTOCOL.search(" ".join(arguments))
    return found[1].lower() if found else CLASSIC


def _member_options(command: Sequence[str]) -> dict[str, object] | None:
    """What a member is told, if the last argument tells one what to do."""
    if not command[-1].startswith("{"):
        return None
    try:
        options = json.loads(command[-1])
    except ValueError:
        return None
    return cast("dict[str, object]", options) if "client" in options else None


def _member(command: Sequence[str], options: dict[str, object]) -> list[Ran]:
    if _ports(str(options.get("bootstrap"))) & _ports_of_kafka:
        return []
    client = str(options["client"])
    protocol = str(options.get("protocol") or CLASSIC)
    did = str(options.get("strategy") or "")
    if client in _PYTHON_MODULES:
        name, module = _PYTHON_MODULES[client]
        return [Ran(name, _python_version(module), protocol, did)]
    if client == "java":
        return [Ran("kafka-clients", kafka_version(), protocol, did)]
    if client == "kafkajs":
        package = Path(command[1]).parent / "node_modules" / "kafkajs" / "package.json"
        return [Ran(client, json.loads(package.read_text())["version"], protocol, did)]
    if client == "franz-go":
        return [Ran(client, _built_with(Path(command[0])), protocol, did)]
    return []


@cache
def _python_version(module: str) -> str:
    with warnings.catch_warnings():
        # kafka-python reads its schemas in a way that Python 3.11 calls old.
        warnings.simplefilter("ignore", DeprecationWarning)
        return str(import_module(module).__version__)


@cache
def _built_with(binary: Path) -> str:
    """The version of franz-go that Go's linker wrote into a program."""
    found = re.search(rb"github\.com/twmb/franz-go\tv([\w.+-]+)", binary.read_bytes())
    assert found is not None
    return found[1].decode()


@cache
def kafka_version() -> str:
    """What Kafka's tools answer to `--version`."""
    with zipfile.ZipFile(kafka_jars() / f"kafka-clients-{KAFKA_VERSION}.jar") as jar:
        text = jar.read("kafka/kafka-version.properties").decode()
    return dict(line.split("=") for line in text.split())["version"]


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    if event == _EVENT:
        _started.append(Ran(*(str(word) for word in arguments)))
    if event != "subprocess.Popen":
        return
    command = arguments[1]
    if isinstance(command, list):
        words = [str(word) for word in cast("list[object]", command)]
        _started.extend(uses_of(words))


class RanPlugin:
    """Hangs what a test has started onto its report, and collects it from the reports."""

    def __init__(self) -> None:
        self.passed: set[Ran] = set()
        self.is_all_passed = True
        sys.addaudithook(_on_event)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.user_properties += [(PROPERTY, list(ran)) for ran in dict.fromkeys(_started)]
        _started.clear()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called where the test ran, and again in the process that collects reports."""
        if report.failed:
            self.is_all_passed = False
        elif report.passed:
            self.passed.update(_read(report.user_properties))


def _read(properties: Iterable[tuple[str, object]]) -> Generator[Ran, None, None]:
    for name, value in properties:
        if name == PROPERTY:
            yield Ran(*cast("list[str]", value))
