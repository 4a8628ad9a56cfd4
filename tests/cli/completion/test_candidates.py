"""`tierlog completion --candidates`: all that the parsers take, and the names of a cluster."""

import argparse
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from tierlog.cli.command_line import full_parser, run
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.cli.client.command_run import Tierlog

Capture = pytest.CaptureFixture[bytes]


def answer(capture: Capture, line: str) -> list[list[str]]:
    """The fields of each line of the answer."""
    capture.readouterr()
    assert run(["completion", "--candidates", line], 0) == 0
    return [each.split("\t") for each in capture.readouterr().out.decode().splitlines()]


def words(capture: Capture, line: str) -> list[str]:
    kind, *candidates = answer(capture, line)
    assert kind == ["words"]
    return [each[0] for each in candidates]


def parsers(
    parser: argparse.ArgumentParser, path: str = "tierlog"
) -> Iterator[tuple[str, list[argparse.Action], dict[str, argparse.ArgumentParser]]]:
    """Each command with its arguments and its own commands."""
    actions = cast("list[argparse.Action]", vars(parser)["_actions"])
    commands: dict[str, argparse.ArgumentParser] = {}
    for action in actions:
        commands |= vars(action).get("_name_parser_map", {})
    yield path, actions, commands
    for name, command in commands.items():
        yield from parsers(command, f"{path} {name}")


COMMANDS = {path: (actions, commands) for path, actions, commands in parsers(full_parser())}


@pytest.mark.parametrize("path", COMMANDS)
def test_each_command_offers_its_options_and_its_commands(path: str, capsysbinary: Capture) -> None:
    actions, commands = COMMANDS[path]
    assert len(COMMANDS) > 40
    shown = [action for action in actions if action.help != argparse.SUPPRESS]
    options = [name for action in shown for name in action.option_strings]
    assert words(capsysbinary, f"{path} -") == options
    if commands:
        kind, *offered = answer(capsysbinary, f"{path} ")
        assert (kind, [name for name, _ in offered]) == (["words"], list(commands))
        assert all(about for _, about in offered)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # Values of options, of arguments, and of options that are not finished.
        ("tierlog produce -z ", ["gzip", "lz4", "none", "snappy", "zstd"]),
        ("tierlog serve --log-format=", ["--log-format=text", "--log-format=json"]),
        ("tierlog completion ", ["bash", "zsh", "fish"]),
        ("tierlog serve --announce ", []),
        # What is quoted is one word, also where the quote is still open.
        ("tierlog serve --announce 'it is up' --log-format ", ["text", "json"]),
        ("tierlog serve --announce it\\ is\\ up --log-format ", ["text", "json"]),
        ('tierlog serve --announce "it is up', []),
        # A place from the end is a value, not an option.
        ("tierlog topic trim -o -5 -p ", []),
        # All arguments are there: only options can follow.
        ("tierlog completion bash ", ["-h", "--help"]),
        # There is no such command, and no line.
        ("tierlog topics ", []),
        ("tierlog topic lss -", []),
        ("tierlog", []),
        ("", []),
    ],
)
def test_the_values_of_arguments(line: str, expected: list[str], capsysbinary: Capture) -> None:
    assert words(capsysbinary, line) == expected


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("tierlog serve --config ", "files"),
        ("tierlog serve --config=serv", "files"),
        ("tierlog topic ls -X a=b --command-config cl", "files"),
        ("tierlog serve --data ", "directories"),
        ("tierlog secure init ", "directories"),
    ],
)
def test_files_and_directories_are_left_to_the_shell(
    line: str, kind: str, capsysbinary: Capture
) -> None:
    assert answer(capsysbinary, line) == [[kind]]


def test_the_names_of_topics_and_groups_come_from_the_cluster_of_the_line(
    tmp_path: Path, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERLOG_BOOTSTRAP", "127.0.0.1:1")
    with BrokerThread(tmp_path / "data") as broker:
        tierlog = Tierlog(capsysbinary, monkeypatch, broker.bootstrap)
        tierlog.done("topic", "create", "orders", "orphans")
        tierlog.done("consume", "orders", "-g", "billing", "-e")
        there = f"-b {broker.bootstrap}"
        assert words(capsysbinary, f"tierlog produce {there} or") == ["orders", "orphans"]
        assert words(capsysbinary, f"tierlog consume orders --bootstrap={broker.bootstrap} ") == [
            "orders",
            "orphans",
        ]
        assert words(capsysbinary, f"tierlog consume {there} -g ") == ["billing"]
        assert words(capsysbinary, f"tierlog consume {there} --group=") == ["--group=billing"]
        # One topic is all that produce takes.
        assert "orders" not in words(capsysbinary, f"tierlog produce {there} orders ")
        # Nothing listens where the environment says: no candidates.
        assert words(capsysbinary, "tierlog produce ") == []
        monkeypatch.setenv("TIERLOG_BOOTSTRAP", broker.bootstrap)
        assert words(capsysbinary, "tierlog produce ") == ["orders", "orphans"]


@contextmanager
def silence() -> Generator[str]:
    """The address of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("addresses", [1, 2])
def test_the_shell_is_not_kept_by_a_broker_that_does_not_respond(addresses: int) -> None:
    patient = "-X socket.connection.setup.timeout.ms=900000 -X default.api.timeout.ms=900000"
    with silence() as address:
        line = f"tierlog produce {patient} -b {','.join([address] * addresses)} "
        done = subprocess.run(
            [sys.executable, "-m", "tierlog.cli", "completion", "--candidates", line],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert not done.stderr
    assert not done.stdout


def test_the_cluster_can_be_named_without_a_space(
    tmp_path: Path, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERLOG_BOOTSTRAP", "127.0.0.1:1")
    with BrokerThread(tmp_path / "data") as broker:
        Tierlog(capsysbinary, monkeypatch, broker.bootstrap).done("topic", "create", "orders")
        monkeypatch.setenv("TIERLOG_BOOTSTRAP", "127.0.0.1:1")
        assert words(capsysbinary, f"tierlog produce -b{broker.bootstrap} ") == ["orders"]
        line = f"tierlog produce -b{broker.bootstrap} -Xsecurity.protocol=PLAINTEXT "
        assert words(capsysbinary, line) == ["orders"]
        # What the command would refuse has no candidates.
        assert words(capsysbinary, f"tierlog produce -b{broker.bootstrap} -Xno.such=x ") == []
