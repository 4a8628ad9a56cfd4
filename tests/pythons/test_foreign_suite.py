"""The suite of `tests/foreign_suite/` passes beside the plug-ins of others, on each Python.

pytest-asyncio, anyio with trio, freezegun, time-machine, pyfakefs, pytest-randomly, caplog, forks,
gevent and uvloop, in four workers of pytest-xdist, each with one broker, and with all warnings as
errors. Twenty orders of its tests are tried on this Python by `make test-long`.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tierlog.tests.house_rules import ROOT
from tierlog.tests.pythons.environments import SUITE, python_with
from tierlog.tests.pythons.interpreters import OWN, VERSIONS, find

PROJECT = ROOT / "tests" / "foreign_suite"
TESTS_MIN = 60
ORDERS = 20
WITHIN_S = 900

_ON_EACH_PYTHON = [
    pytest.param(version, 1, marks=pytest.mark.requires(f"python{version}")) for version in VERSIONS
]
_IN_OTHER_ORDERS = [
    pytest.param(OWN, order, marks=pytest.mark.long) for order in range(2, ORDERS + 1)
]


@pytest.mark.timeout(1800)  # an environment is filled before the first run
@pytest.mark.parametrize(("version", "order"), [*_ON_EACH_PYTHON, *_IN_OTHER_ORDERS])
def test_every_test_of_the_suite_passes(version: str, order: int, tmp_path: Path) -> None:
    answer = _suite_run(version, tmp_path, [""], "-n", "4", "--randomly-seed", str(order))
    ends = re.search(r"^(\d+) passed in ", answer.stdout, re.MULTILINE)
    assert ends is not None, answer.stdout[-8000:] + answer.stderr
    assert int(ends[1]) >= TESTS_MIN
    assert answer.returncode == 0


def _suite_run(
    version: str, tmp_path: Path, tests: list[str], *options: str
) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy of the project as its developer does; an empty name: all of them."""
    interpreter = find(version)
    assert interpreter is not None
    python = python_with(interpreter, *SUITE, name=".venv-suite")
    project = tmp_path / "suite"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    return interpreter.run(
        [
            *("env", "-u", "KAFKA_BOOTSTRAP_SERVERS", "-u", "PYTEST_XDIST_WORKER", "-u"),
            *("PYTEST_ADDOPTS", python, "-m", "pytest", "-q"),
            *("-p", "no:cacheprovider", *options),
            *(str(project / name) for name in tests),
        ],
        WITHIN_S,
    )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "names",
    [
        ("test_topics_come_and_go", "test_the_content_of_a_file_is_sent", "test_after_it"),
        ("test_a_broker_starts_in_it", "test_the_content_of_a_file_is_sent"),
    ],
    ids=lambda names: "-".join(names),
)
def test_modules_that_a_fake_file_system_drops_are_not_loaded_twice(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    """pyfakefs drops those that were first imported within its test, by the broker's thread too."""
    tests = [f"test_pyfakefs.py::{name}" for name in names]
    answer = _suite_run(OWN, tmp_path, tests, "-p", "no:randomly")
    assert answer.returncode == 0, answer.stdout[-8000:] + answer.stderr
    assert f"{len(names)} passed in " in answer.stdout
