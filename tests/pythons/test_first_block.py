"""README's first commands, on each Python that the machine has, as `uvx` runs them."""

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.house_rules import ROOT
from tierlog.tests.pythons.environments import UV
from tierlog.tests.pythons.interpreters import VERSIONS, Interpreter, find

_SECTION = (ROOT / "README.md").read_text().partition("## Start a broker")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"^    (?:.*\| )?(uvx --from \. tierlog .+)$", _SECTION, re.MULTILINE)
_INSTALLED_WITHIN_S = 600
_ANSWERED_WITHIN_S = 120


def as_written(command: str, python: Interpreter) -> list[str]:
    """A command of the README, with the uv and the Python of this test."""
    uvx, *words = shlex.split(command)
    assert uvx == "uvx"
    options = ("--no-python-downloads", "--quiet", "--python", python.path)
    return [UV, "tool", "run", *options, *words]


def test_the_first_block_starts_a_broker_writes_and_reads() -> None:
    verbs = [shlex.split(command)[4] for command in COMMANDS]
    assert verbs == ["serve", "produce", "consume"]


@pytest.mark.timeout(1200)  # uvx installs tierlog first
@pytest.mark.parametrize(
    "version",
    [pytest.param(each, marks=pytest.mark.requires(f"python{each}")) for each in VERSIONS],
)
def test_the_first_block_works_on(version: str, tmp_path: Path) -> None:
    python = find(version)
    assert python is not None
    serve, produce, consume = (as_written(command, python) for command in COMMANDS)
    at = f"127.0.0.1:{free_port()}"
    own = {
        "listeners": f"PLAINTEXT://{at}",
        "log.dirs": str(tmp_path / "data"),
        "rsm.config.url": (tmp_path / "tier").as_uri(),
    }
    serve += [word for name in own for word in ("--override", f"{name}={own[name]}")]

    def run(words: Sequence[str], said: str = "") -> str:
        answer = python.run([*words, "-b", at], _ANSWERED_WITHIN_S, said)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    with subprocess.Popen(
        python.command(serve), cwd=ROOT, stdout=subprocess.PIPE, env=os.environ, text=True
    ) as broker:
        try:
            assert broker.stdout is not None
            assert f" ready on {at} in " in broker.stdout.readline()
            run(produce, "hello, tier\n")
            assert run(consume) == "hello, tier\n"
        finally:
            broker.terminate()
            broker.wait(_ANSWERED_WITHIN_S)
    assert broker.returncode == 0
