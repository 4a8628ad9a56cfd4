"""The table of clients and tools that the tests run, in `docs/compatibility.md`.

    python -m tierlog.tests.compatibility.table

It is made of the tests: versions are those that are pinned for them, and a client or tool has a
line for as long as a test file names it. `test_table.py` fails where the committed table differs.
"""

import ast
import importlib.metadata
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tierlog.bench.kafka_peer import KAFKA_VERSION, TOOLS

TESTS = Path(__file__).parents[1]
TABLE = TESTS.parent / "docs" / "compatibility.md"
_FOLDERS = ("compatibility", "conformance", "scenarios", "end_to_end", "tiering")
_HERE = Path(__file__).parent

_PYTHON_CLIENTS = {
    "confluent-kafka": ("confluent_kafka", "Python, on librdkafka (C)"),
    "kafka-python": ("kafka", "Python"),
    "aiokafka": ("aiokafka", "Python, asyncio"),
}
_HEADING = """# Clients and tools

Unmodified, at the pinned versions, named in the tests that `make test` runs against a broker of
ours; what a machine without Java, Node or Go left out, its summary says. This table is written by
`python -m tierlog.tests.compatibility.table`, and a test fails where the tests name others.
"""


def _test_files() -> list[Path]:
    return sorted(
        path
        for folder in _FOLDERS
        for path in (TESTS / folder).glob("*.py")
        if path not in (Path(__file__), _HERE / "test_table.py")
    )


def _named_in(path: Path) -> Iterator[str]:
    """What a file imports, and every string that it holds."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (f"import {alias.name.partition('.')[0]}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield f"import {node.module.partition('.')[0]}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _clients() -> Iterator[tuple[str, str, str, str]]:
    """Name, language, version, and what the test files call it."""
    for name, (module, language) in _PYTHON_CLIENTS.items():
        yield name, language, importlib.metadata.version(name), f"import {module}"
    package = json.loads((_HERE / "kafkajs" / "package.json").read_text())
    yield "kafkajs", "JavaScript", package["dependencies"]["kafkajs"], "kafkajs"
    module_file = (_HERE / "franz_go" / "go.mod").read_text()
    found = re.search(r"franz-go v(\S+)", module_file)
    assert found is not None
    yield "franz-go", "Go", found[1], "franz-go"
    yield "kafka-clients", "Java", KAFKA_VERSION, "kafka-verifiable-consumer"


def table() -> str:
    """The whole file."""
    named = {name for path in _test_files() for name in _named_in(path)}
    lines = [_HEADING, "| client | language | version |", "|---|---|---|"]
    for name, language, version, called in _clients():
        if called in named:
            lines.append(f"| {name} | {language} | {version} |")
    lines += ["", "| tool of Apache Kafka | version |", "|---|---|"]
    # kafka-storage only prepares the Kafka that we are compared with.
    tools = sorted(named & TOOLS.keys() - {"kafka-storage"})
    lines += [f"| {name} | {KAFKA_VERSION} |" for name in tools]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table())
