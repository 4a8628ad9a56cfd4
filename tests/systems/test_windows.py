"""On Windows, whoever starts tierlog or imports it is sent to WSL in one sentence.

There is no Windows here: the modules that it lacks are hidden, and Python is told where it is.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.tests.house_rules import ROOT

SENTENCE = "tierlog runs on Linux and macOS: on Windows, install and run it in WSL"
_ALONE = {"PYTHONPATH": str(ROOT / ".namespace"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
_ON_WINDOWS = (
    "import runpy, sys\n"
    "for name in ('fcntl', 'resource', 'termios', 'pwd', 'grp'): sys.modules[name] = None\n"
    "sys.platform = 'win32'\n"
)


def _python(*words: str, directory: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words],
        cwd=directory,
        env={**os.environ, **_ALONE},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("tierlog.cli", "tierlog"),
        ("tierlog.bench", "tierlog-bench"),
        ("tierlog.pipeline.spark", "tierlog-spark"),
    ],
)
@pytest.mark.parametrize("word", ["--help", "serve"])
def test_a_command_says_it_and_nothing_else(module: str, command: str, word: str) -> None:
    run = f"sys.argv = ['x', {word!r}]; runpy.run_module({module!r}, run_name='__main__')"
    answer = _python("-c", _ON_WINDOWS + run)
    assert answer.stderr == f"{command}: {SENTENCE}\n"
    assert answer.stdout == ""
    assert answer.returncode == 1


@pytest.mark.parametrize("entry", ["cli.__main__", "bench.__main__", "pipeline.spark.__main__"])
def test_an_installed_command_says_it_as_well(entry: str) -> None:
    program = f"import tierlog.{entry} as entry\nsys.argv = ['x']\nsys.exit(entry.main())"
    answer = _python("-c", _ON_WINDOWS + program)
    assert answer.stderr.endswith(f": {SENTENCE}\n")
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "from tierlog.testing import Broker",
        "import tierlog.tables",
        "import tierlog.spark",
        "import tierlog.pipeline.spark.source",
        "import tierlog.pipeline.spark.session",
    ],
)
def test_an_import_says_it(statement: str) -> None:
    answer = _python("-c", f"{_ON_WINDOWS}{statement}")
    assert answer.stderr.splitlines()[-1] == f"ImportError: {SENTENCE}"
    assert "fcntl" not in answer.stderr


def test_the_version_can_be_asked_for() -> None:
    assert _python("-c", f"{_ON_WINDOWS}import tierlog; print(tierlog.__version__)").stdout


def test_the_plugin_harms_no_test_but_those_that_want_a_broker(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        f"{_ON_WINDOWS}\ndef test_alone(): ...\n\ndef test_with_it(tierlog_broker): ...\n"
    )
    answer = _python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-p", "tierlog.testing.pytest_plugin"),
        directory=tmp_path,
    )
    assert "1 passed, 1 error" in answer.stdout, answer.stdout
    assert SENTENCE in answer.stdout
    assert "Traceback" not in answer.stdout
