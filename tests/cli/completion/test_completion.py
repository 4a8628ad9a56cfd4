"""`tierlog completion`: what a shell writes on its line when a user presses the key."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from tierlog.cli.command_line import run
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.cli.client.command_run import Tierlog
from tierlog.tests.house_rules import ROOT

pytestmark = pytest.mark.slow

_WITHIN_S = 120.0
# Each shell takes the completion, and prints its line where Ctrl-G is pressed.
_BASH = """\
eval "$(tierlog completion bash)"
bind -x '"\\C-g": printf "[%s]\\n" "$READLINE_LINE"'
"""
_ZSH = """\
mkdir functions && tierlog completion zsh > functions/_tierlog
fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -d $PWD/dump; setopt NO_LIST_BEEP
show() { printf "[%s]\\n" "$BUFFER" }; zle -N show; bindkey "^G" show
"""


@pytest.fixture
def home(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The home of a user with `tierlog` on the PATH, files, and a broker with topics and groups."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "somewhere").mkdir()
    (home / "some.properties").touch()
    command = home / "bin" / "tierlog"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tierlog.cli "$@"\n')
    command.chmod(0o755)
    with BrokerThread(tmp_path / "data") as broker:
        tierlog = Tierlog(capsysbinary, monkeypatch, broker.bootstrap)
        tierlog.done("topic", "create", "orders", "payments")
        tierlog.done("consume", "orders", "-g", "team:billing", "-e")
        monkeypatch.setenv("TIERLOG_BOOTSTRAP", broker.bootstrap)
        monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", str(ROOT / ".namespace"))
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setenv("INPUTRC", os.devnull)
        monkeypatch.chdir(home)
        yield home


@dataclass
class _Shell:
    """A shell that a user types into."""

    command: list[str]
    _screen: int = field(init=False)
    _process: subprocess.Popen[bytes] = field(init=False)
    _shown: str = ""

    def __enter__(self) -> Self:
        self._screen, terminal = pty.openpty()
        self._process = subprocess.Popen(
            self.command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
        )
        os.close(terminal)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(_WITHIN_S)
        os.close(self._screen)

    def run(self, lines: str) -> None:
        """Run these lines; the prompt shows that the shell reads keys itself, not the terminal."""
        self._type(f"{lines}PS1='ty''pe> '\n")
        self._wait_for("type> ")

    def complete(self, line: str) -> str:
        """The line after the user has pressed the key; another key then clears it."""
        self._type(f"{line}\t\x07\x15")
        return self._wait_for(r"\[(tierlog [^\]]*)\]")

    def _type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def _wait_for(self, pattern: str) -> str:
        deadline = time.monotonic() + _WITHIN_S
        while (found := re.search(pattern, self._shown)) is None:
            readable, _, _ = select.select([self._screen], [], [], deadline - time.monotonic())
            assert readable, self._shown
            self._shown += os.read(self._screen, 65_536).decode()
        self._shown = self._shown[found.end() :]
        return found.group(found.re.groups)


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        (["bash", "--norc", "--noprofile", "-i"], _BASH),
        pytest.param(["zsh", "-f", "-i"], _ZSH, marks=pytest.mark.requires("zsh")),
    ],
    ids=["bash", "zsh"],
)
def test_the_key_finishes_words_names_and_paths(
    command: list[str], settings: str, home: Path
) -> None:
    with _Shell(command) as shell:
        shell.run(settings)
        for typed, completed in {
            "tierlog top": "tierlog topic ",
            "tierlog topic desc": "tierlog topic describe ",
            "tierlog topic describe --boot": "tierlog topic describe --bootstrap ",
            # The only topic and the only group that begin so.
            "tierlog topic describe or": "tierlog topic describe orders ",
            "tierlog topic describe orders pay": "tierlog topic describe orders payments ",
            "tierlog consume -X check.crcs=false or": (
                "tierlog consume -X check.crcs=false orders "
            ),
            # Bash splits words at the colon and at the equals sign.
            "tierlog produce --compression=zs": "tierlog produce --compression=zstd ",
            "tierlog serve --config some.p": "tierlog serve --config some.properties ",
            "tierlog serve --config=some.p": "tierlog serve --config=some.properties ",
            # A directory is all that can be meant.
            "tierlog serve --data som": "tierlog serve --data somewhere/",
            # What cannot be read stays as it is.
            "tierlog no-such-command or": "tierlog no-such-command or",
        }.items():
            assert shell.complete(typed) == completed
        group = shell.complete("tierlog group describe team:b").replace("\\", "")
        assert group == "tierlog group describe team:billing "


@pytest.mark.requires("fish")
def test_fish_lists_words_with_help_names_and_paths(
    home: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    capsysbinary.readouterr()
    assert run(["completion", "fish"], 0) == 0
    completions = home / ".config" / "fish" / "completions"
    completions.mkdir(parents=True)
    (completions / "tierlog.fish").write_bytes(capsysbinary.readouterr().out)

    def complete(line: str) -> list[str]:
        answer = subprocess.run(
            ["fish", "--command", "complete --do-complete $argv[1]", line],
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=True,
        )
        return answer.stdout.splitlines()

    assert complete("tierlog topic desc")[0].startswith("describe\t")
    assert "--bootstrap\t" in complete("tierlog topic describe --boot")[0]
    assert complete("tierlog topic describe ") == ["orders", "payments"]
    assert complete("tierlog group describe team:b") == ["team:billing"]
    assert complete("tierlog produce --compression=zs") == ["--compression=zstd"]
    assert complete("tierlog serve --config some.p") == ["some.properties"]
    assert [each.split("\t")[0] for each in complete("tierlog serve --data som")] == ["somewhere/"]
    assert complete("tierlog no-such-command or") == []


def test_no_shell_is_needed_to_see_the_text(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert run(["completion", shell], 0) == 0
        text = capsysbinary.readouterr().out.decode()
        assert "tierlog completion --candidates" in text
        assert len(text.splitlines()) <= 25
