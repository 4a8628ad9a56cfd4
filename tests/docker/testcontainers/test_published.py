"""The newest modules of Testcontainers do what is written down of them here, and on the page.

What is written down runs with the image (`test_testcontainers.py`). A module that does something
else now fails here: write its new way down, and see whether the image still starts.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tierlog.tests.docker.testcontainers.differences import differences
from tierlog.tests.docker.testcontainers.library import Library
from tierlog.tests.docker.testcontainers.published import Published, newest
from tierlog.tests.docker.testcontainers.steps import STARTER
from tierlog.tests.docker.testcontainers.ways import LIBRARIES
from tierlog.tests.house_rules import ROOT

_PAGE = (ROOT / "docs" / "docker.md").read_text()


def _ways(language: str) -> list[Library]:
    return [each for each in LIBRARIES if each.module == language]


def _row(title: str) -> str:
    (row,) = (line for line in _PAGE.splitlines() if line.startswith(f"| {title}"))
    return row


def _check_java(published: Published) -> None:
    """Each class that the page names is there, and deprecated if the page says so."""
    rows = [line for line in _PAGE.splitlines() if line.startswith("| Java")]
    files = {each.removesuffix(".java").replace("/", "."): each for each in published.files}
    named: dict[str, str] = {}
    for row in rows:
        (name,) = re.findall(r"org(?:\.\w+)+", row.split("|")[1])
        named[name] = row
    helpers = {
        name
        for name in files
        if f"public class {name.rpartition('.')[2]}" not in published.files[files[name]]
    }
    assert set(named) == set(files) - helpers
    for name, row in named.items():
        is_deprecated = "@Deprecated\npublic class" in published.files[files[name]]
        assert ("deprecated" in row) == is_deprecated, name
    (oldest,) = re.findall(r'MIN_KRAFT_TAG = "([\d.]+)"', published.code)
    assert f"`.withKraft()` refuses tags below {oldest}" in _PAGE


def _check_python(published: Published) -> None:
    row = _row("Python")
    module = "testcontainers.community.kafka"
    assert f"`{module}.KafkaContainer`" in row
    assert "class KafkaContainer(" in published.files[module.replace(".", "/") + "/__init__.py"]
    assert "`testcontainers.kafka`, warns" in row
    assert "DeprecationWarning" in published.files["testcontainers/kafka.py"]
    (oldest,) = re.findall(r'MIN_KRAFT_TAG = "([\d.]+)"', published.code)
    assert f"refuses tags below {oldest}" in row


def _check_node(published: Published) -> None:
    row = _row("Node")
    (since,) = re.findall(r'tag, ">=([\d.]+)"\)\) \{\s+this\.withKraft\(\);', published.code)
    assert f"KRaft from tag {since} on" in row
    (secure,) = re.findall(r'MIN_KRAFT_SASL_VERSION = "([\d.]+)"', published.code)
    assert f"needs a tag of {secure} or newer" in _PAGE
    assert "if (this.saslSslConfig && this.mode !== KafkaMode.KRAFT)" in published.code
    assert "in its mode with ZooKeeper" in _PAGE


def _check_go(published: Published) -> None:
    assert '`kafka.Run(ctx, "tierlog")`' in _row("Go")
    assert "func Run(ctx context.Context, img string, " in published.code
    assert "func WithClusterID(" in published.code
    assert "`WithClusterID`" in _PAGE


_CHECKS: Mapping[str, Callable[[Published], None]] = {
    "java": _check_java,
    "python": _check_python,
    "node": _check_node,
    "go": _check_go,
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "language",
    [
        pytest.param("java", marks=pytest.mark.requires("java", "mvn")),
        "python",
        pytest.param("node", marks=pytest.mark.requires("node")),
        pytest.param("go", marks=pytest.mark.requires("go")),
    ],
)
def test_the_newest_module_does_what_is_written_down(language: str, tmp_path: Path) -> None:
    published = newest(language, tmp_path)
    print(f"Testcontainers for {language}: {published.version}")
    assert differences(language, published.code, _ways(language)) == []
    _CHECKS[language](published)


def _code_of(way: Library) -> str:
    """A module that has all that a way has."""
    assert way.awaited is not None
    stated = (*way.environment, *way.environment.values(), *way.command, way.script)
    return "\n".join((*stated, f'Wait.forLogMessage("{way.awaited.pattern}", 1)'))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("", "", []),
        (
            STARTER,
            "/opt/start.sh",
            [
                "the published module has no testcontainers_start.sh",
                "the published module has no tmp",
                "only the published module has /opt/start.sh",
            ],
        ),
        (
            "KAFKA_NODE_ID",
            "KAFKA_NODE_NAME",
            [
                "the published module has no KAFKA_NODE_ID",
                "only the published module has KAFKA_NODE_NAME",
            ],
        ),
        (
            "to RUNNING",
            "to READY",
            [
                "the published module has no RUNNING",
                "the published module does not await .*Transitioning from RECOVERY to RUNNING.*",
                "only the published module awaits .*Transitioning from RECOVERY to READY.*",
            ],
        ),
        (
            "kafka.properties'",
            "kafka.properties --standalone'",
            ["only the published module has --standalone"],
        ),
    ],
)
def test_what_a_module_changes_is_named(before: str, after: str, said: list[str]) -> None:
    (way,) = (
        each for each in LIBRARIES if each.name == "Java, the deprecated KafkaContainer.withKraft"
    )
    code = _code_of(way)
    assert not before or before in code
    assert differences("java", code.replace(before, after) if before else code, [way]) == said


def test_a_client_that_cannot_fetch_says_what_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "npm"
    program.write_text("#!/bin/sh\necho unreachable >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError) as raised:
        newest("node", tmp_path)
    first, last = str(raised.value).splitlines()
    assert first.startswith("What Testcontainers for Node does now cannot be told: `npm pack ")
    assert first.endswith("` has failed. Run the test again where its registry can be reached.")
    assert last == "unreachable"
