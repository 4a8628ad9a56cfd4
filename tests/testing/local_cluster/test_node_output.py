"""Where the lines of nodes go, and how they look."""

import io
from pathlib import Path

import pytest

from tierlog.storage.files import OsFiles
from tierlog.testing.local_cluster import node_output
from tierlog.testing.local_cluster.node_output import KeptOutput, PrefixedOutput


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class ClosedPipe(io.StringIO):
    """A stream that nobody reads any longer."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_each_line_begins_with_the_name_of_its_node() -> None:
    stream = io.StringIO()
    output = PrefixedOutput(stream, lambda: None)
    output.take("broker-1", "a")
    output.take("controller-101", "b")
    output.take("broker-1", "c")
    output.say("ready")
    assert stream.getvalue().splitlines() == [
        "broker-1 | a",
        "controller-101 | b",
        "broker-1       | c",
        "ready",
    ]


def test_a_terminal_has_a_colour_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    output = PrefixedOutput(stream, lambda: None)
    for name in ("broker-1", "broker-2", "broker-1"):
        output.take(name, "x")
    first, second, third = stream.getvalue().splitlines()
    assert first.startswith("\x1b[")
    assert first == third
    assert first[:5] != second[:5]
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    PrefixedOutput(plain, lambda: None).take("broker-1", "x")
    assert plain.getvalue() == "broker-1 | x\n"


def test_a_reader_that_has_left_is_noticed_once() -> None:
    noticed: list[str] = []
    output = PrefixedOutput(ClosedPipe(), lambda: noticed.append("closed"))
    output.take("broker-1", "a")
    output.take("broker-1", "b")
    assert noticed == ["closed"]


def test_lines_are_kept_in_a_file_for_each_node_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_output, "KEPT_BYTES_MAX", 10)
    for lines in (["four"], ["four", "x"]):
        output = KeptOutput(str(tmp_path), OsFiles())
        for line in lines:
            output.take("broker-1", line)
        output.say("own")
    assert (tmp_path / "broker-1.log").read_text() == "four\nfour\n"
    assert (tmp_path / "cluster.log").read_text() == "own\nown\n"
