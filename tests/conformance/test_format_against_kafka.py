"""`tierlog format` beside `kafka-storage format`: the same files, lines and refusals."""

import ast
import contextlib
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.cli.command_line import run
from tierlog.clients.record.batch import RecordBatch, batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.tests.recordings.printed_lines import printed_lines

pytestmark = pytest.mark.recorded

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
ID = ("-t", CLUSTER)
ONE, TWO = "AAAAAAAAAAAAAAAAAAAABQ", "AAAAAAAAAAAAAAAAAAAABg"
COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
}
STATIC = COMBINED | {"controller.quorum.voters": "1@127.0.0.1:19093"}
DYNAMIC = COMBINED | {"controller.quorum.bootstrap.servers": "127.0.0.1:19093"}
BROKER = DYNAMIC | {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:19092"}
CONTROLLER = DYNAMIC | {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:19093"}

_NOT_HERE = ("share.version", "streams.version")
"""Features of Kafka that tierlog does not have."""
_HEADER = ControlRecordType.SNAPSHOT_HEADER.key()
"""Its value is a time."""
_FEATURE = (
    r"ApiMessageAndVersion\(FeatureLevelRecord\(name='([a-z.]+)', featureLevel=\d+\) at version 0\)"
)
_DIRECTORY_ID = re.compile(r"directory\.id=[\w-]{22}")


class ToolResult(NamedTuple):
    """What a tool said, and the files that it left, by their names in the node's directory."""

    code: int
    lines: list[str]
    files: dict[str, object]


def a_node(directory: Path, properties: dict[str, str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    stated = {**properties, "log.dirs": f"{directory / 'a'},{directory / 'b'}"}
    file = directory / "node.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in stated.items()))
    return file


def said(directory: Path, *texts: str) -> list[str]:
    """The lines without paths and ids; Kafka's order of directories is that of a hash."""
    lines: list[str] = []
    for line in "\n".join(texts).splitlines():
        text = re.sub(r"^Exception in thread \"main\" [\w.]+: ", "", line)
        if text.startswith(("\tat ", "Caused by: ", "\t...")) or not text:
            continue
        text = _DIRECTORY_ID.sub("directory.id=*", text.replace(str(directory), "*"))
        text = re.sub(r"\*/[ab] is already", "*/? is already", text)
        records = [match[0] for match in re.finditer(_FEATURE, text) if match[1] not in _NOT_HERE]
        if records:
            text = re.sub(r"records=\[.*\], meta", f"records=[{', '.join(records)}], meta", text)
        lines.append(text)
    return sorted(lines)


def a_file(path: Path) -> object:
    """What a file says, without times, ids that are made up, and features that we do not have."""
    if path.name == "meta.properties":
        text = _DIRECTORY_ID.sub("directory.id=*", path.read_text())
        return [line for line in text.splitlines() if not line.startswith("#")]
    return [_values(batch) for batch in batches(path.read_bytes())]


def _values(batch: RecordBatch) -> tuple[bool, int, list[tuple[bytes | None, bytes | None]]]:
    records = [
        (record.key, None if record.key == _HEADER else record.value)
        for record in batch.records()
        if not any(name.encode() in (record.value or b"") for name in _NOT_HERE)
    ]
    return batch.is_control, batch.partition_leader_epoch, records


def files_in(directory: Path) -> dict[str, object]:
    return {
        str(path.relative_to(directory)): a_file(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "node.properties"
    }


def kafka(directory: Path, file: Path, command: str, arguments: Sequence[str]) -> ToolResult:
    def storage_tool() -> list[str]:
        answer = run_tool("kafka-storage", command, "-c", str(file), *arguments, check=False)
        lines = said(directory, answer.stdout, answer.stderr)
        return [repr(answer.returncode), repr(lines), repr(files_in(directory))]

    properties = file.read_text().replace(str(directory), "*")
    asked = f"kafka-storage {command} {' '.join(arguments)} {properties!r}"
    code, lines, files = printed_lines([asked], storage_tool)
    return ToolResult(ast.literal_eval(code), ast.literal_eval(lines), ast.literal_eval(files))


def ours(directory: Path, file: Path, command: str, arguments: Sequence[str]) -> ToolResult:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([command, "-c", str(file), *arguments], 0)
    return ToolResult(code, said(directory, out.getvalue(), err.getvalue()), files_in(directory))


def both(
    tmp_path: Path, properties: dict[str, str], steps: Iterable[tuple[str, ...]]
) -> list[tuple[ToolResult, ToolResult]]:
    """Both tools take the same steps, each in its own directory."""
    pairs: list[tuple[ToolResult, ToolResult]] = []
    theirs, mine = tmp_path / "kafka", tmp_path / "tierlog"
    for command, *arguments in steps:
        pairs.append(
            (
                ours(mine, a_node(mine, properties), command, arguments),
                kafka(theirs, a_node(theirs, properties), command, arguments),
            )
        )
    return pairs


FORMATTED = {
    "static voters, then again": (
        STATIC,
        [
            ("info",),
            ("format", *ID),
            ("info",),
            ("format", *ID),
            ("format", *ID, "-g"),
            ("format", "-t", ONE, "-g"),
        ],
    ),
    "static voters, features stated": (
        STATIC,
        [("format", *ID, "-f", "transaction.version=2", "-r", "4.3-IV0")],
    ),
    "static voters, no eligible leaders": (
        STATIC,
        [("format", *ID, "-f", "eligible.leader.replicas.version=0")],
    ),
    "static voters, no first ones": (STATIC, [("format", *ID, "-N")]),
    "one of two": (
        DYNAMIC,
        [("format", *ID, "-I", f"1@127.0.0.1:19093:{ONE},2@127.0.0.1:19094:{TWO}")],
    ),
    "none of them": (DYNAMIC, [("format", *ID, "-I", f"2@127.0.0.1:19094:{TWO}")]),
    "joins later": (DYNAMIC, [("format", *ID, "-N")]),
    "a broker": (BROKER, [("format", *ID)]),
    "a broker, first voters": (BROKER, [("format", *ID, "-I", f"2@127.0.0.1:19094:{TWO}")]),
}


@pytest.mark.parametrize(("properties", "steps"), FORMATTED.values(), ids=FORMATTED)
def test_the_same_is_formatted(
    tmp_path: Path, properties: dict[str, str], steps: list[tuple[str, ...]]
) -> None:
    for mine, theirs in both(tmp_path, properties, steps):
        assert mine == theirs


@pytest.mark.parametrize("properties", [DYNAMIC, CONTROLLER], ids=["combined", "controller"])
def test_the_only_voter_is_formatted_alike(tmp_path: Path, properties: dict[str, str]) -> None:
    """Its directory id is made up, and stands in the snapshot."""
    ((mine, theirs),) = both(tmp_path, properties, [("format", *ID, "--standalone")])
    assert (mine.code, mine.lines) == (theirs.code, theirs.lines)
    assert mine.files.keys() == theirs.files.keys()


REFUSED: dict[str, tuple[dict[str, str], list[str]]] = {
    "voters of both kinds": (STATIC, ["-s"]),
    "first voters beside static ones": (STATIC, ["-I", f"1@127.0.0.1:19093:{ONE}"]),
    "no kind of voters": (DYNAMIC, []),
    "a broker as the only voter": (BROKER, ["-s"]),
    "kraft.version of static voters": (STATIC, ["-f", "kraft.version=1"]),
    "kraft.version of dynamic voters": (DYNAMIC, ["-s", "-f", "kraft.version=0"]),
    "a feature without a level": (STATIC, ["-f", "group.version"]),
    "a feature with a word": (STATIC, ["-f", "group.version=x"]),
    "a release and its level": (STATIC, ["-r", "4.3-IV0", "-f", "metadata.version=30"]),
    "no voter": (DYNAMIC, ["-I", ""]),
    "no @": (DYNAMIC, ["-I", "x"]),
    "no id": (DYNAMIC, ["-I", f"a@h:1:{ONE}"]),
    "no host": (DYNAMIC, ["-I", "1@"]),
    "no end of the host": (DYNAMIC, ["-I", "1@[h:1"]),
    "no colon": (DYNAMIC, ["-I", "1@h"]),
    "no colon after the bracket": (DYNAMIC, ["-I", "1@[h]1"]),
    "no directory": (DYNAMIC, ["-I", "1@h:1"]),
    "no port": (DYNAMIC, ["-I", f"1@h:x:{ONE}"]),
    "a large port": (DYNAMIC, ["-I", f"1@h:99999:{ONE}"]),
    "a bad directory": (DYNAMIC, ["-I", "1@h:1:xyz"]),
    "one id twice": (DYNAMIC, ["-I", f"1@h:1:{ONE},1@h:2:{TWO}"]),
}


@pytest.mark.parametrize(("properties", "arguments"), REFUSED.values(), ids=REFUSED)
def test_the_same_is_refused(
    tmp_path: Path, properties: dict[str, str], arguments: list[str]
) -> None:
    ((mine, theirs),) = both(tmp_path, properties, [("format", *ID, *arguments)])
    assert mine == theirs
    assert mine.code == 1


def test_another_node_does_not_get_the_directories(tmp_path: Path) -> None:
    assert both(tmp_path, STATIC, [("format", *ID)])
    other = STATIC | {"node.id": "7", "controller.quorum.voters": "7@127.0.0.1:19093"}
    ((mine, theirs),) = both(tmp_path, other, [("format", *ID, "-g")])
    assert mine == theirs
    assert mine.code == 1
