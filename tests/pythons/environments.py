"""An environment for each Python, in `.venv-3.12` and so on beside `.venv`; uv fills it."""

import hashlib
import sys
from pathlib import Path

from tierlog.tests.house_rules import ROOT
from tierlog.tests.pythons.interpreters import Interpreter

UV = str(Path(sys.executable).with_name("uv"))
"""That of the tests' own environment."""

_INSTALL_WITHIN_S = 900
_CONSTRAINTS = ROOT / "tests" / "constraints.txt"

STORY = (
    *("--editable", ".[arrow,certificates,testing]"),
    *("confluent-kafka", "hypothesis", "pytest-timeout"),
)
"""What a user of the stories installs, and what `tests/conftest.py` imports."""

SUITE = (
    *("--editable", ".[testing]"),
    *("aiokafka", "anyio", "confluent-kafka", "freezegun", "gevent", "kafka-python", "pyfakefs"),
    *("pytest-asyncio", "pytest-randomly", "pytest-timeout", "pytest-xdist", "time-machine"),
    *("trio", "uvloop"),
)
"""What the project has whose tests use plug-ins of many others (`tests/foreign_suite/`)."""

TESTS = ("--editable", ".[bench,spark]", "--group", "test")
"""What the unit tests import."""


def python_with(interpreter: Interpreter, *requirements: str, name: str = ".venv") -> str:
    """The Python of an environment that has these packages; made where it is not up to date.

    `name`: of environments for one purpose, such as those with plug-ins that change all tests.
    """
    folder = ROOT / f"{name}-{interpreter.version}"
    stamp = folder / f".ready-{_digest(*requirements)}"
    python = folder / "bin" / "python"
    if not stamp.exists():
        options = ["--quiet", "--no-python-downloads"]
        if not (folder / "pyvenv.cfg").exists():
            _run(interpreter, UV, "venv", *options, "--python", interpreter.path, str(folder))
        install = [UV, "pip", "install", *options, "--python", str(python)]
        _run(interpreter, *install, "--constraint", str(_CONSTRAINTS), *requirements)
        stamp.touch()
    return str(python)


def _digest(*requirements: str) -> str:
    """Of what was asked for, and of the files that say what it means."""
    files = (_CONSTRAINTS, ROOT / "pyproject.toml")
    texts = [*requirements, *(file.read_text() for file in files)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def _run(interpreter: Interpreter, *words: str) -> None:
    answer = interpreter.run(words, _INSTALL_WITHIN_S)
    assert answer.returncode == 0, f"{' '.join(words)}: {answer.stderr}"
