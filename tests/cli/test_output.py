"""Commands without a broker, whose output is full or closed: one sentence about the output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .formatted_node import Node

_FULL = b"tierlog: The output cannot be written: No space left on device.\n"
_CLOSED = b"tierlog: The standard output is closed: send it to /dev/null instead.\n"


def _into(output: str, *words: str) -> tuple[int, bytes]:
    command = (sys.executable, "-m", "tierlog.cli", *words)
    process = subprocess.run(
        ["sh", "-c", f'"$@" {output}', "sh", *command],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C"},
        timeout=60,
    )
    return process.returncode, process.stderr


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, "controller.quorum.voters=1@localhost:9093")


@pytest.mark.parametrize("words", [("random-uuid",), ("completion", "zsh"), ("info",)])
def test_a_command_that_only_prints_needs_an_output(node: Node, words: tuple[str, ...]) -> None:
    assert node.format() == 0
    stated = ("-c", str(node.file)) if words == ("info",) else ()
    assert _into(">/dev/full", *words, *stated) == (1, _FULL)
    assert _into(">&-", *words, *stated) == (2, _CLOSED)
    assert _into("| true", *words, *stated) == (0, b"")
    assert _into(">/dev/null", *words, *stated) == (0, b"")


def test_directories_are_formatted_also_where_nothing_can_be_printed(node: Node) -> None:
    words = ("format", "-c", str(node.file), "-t", "a-cluster", "-g")
    assert _into(">/dev/full", *words) == (1, _FULL)
    assert node.meta(1).cluster_id == "a-cluster"
    assert _into(">&-", *words) == (0, b"")


def test_a_full_output_is_no_trouble_of_the_tier(tmp_path: Path) -> None:
    for words in (("ls",), ("ls", "--json")):
        assert _into(">/dev/full", "tier", *words, "--data", str(tmp_path))[1] == _FULL
