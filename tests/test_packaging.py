"""What `pip install tierlog` puts on a machine: the five layers and the bench, under one name."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import tierlog
from tierlog.tests.house_rules import ROOT, source_files

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_is_named_after_the_version_in_the_package(wheel: Path) -> None:
    assert wheel.name == f"tierlog-{tierlog.__version__}-py3-none-any.whl"


def test_every_module_but_the_tests_is_in_the_wheel_under_tierlog(wheel: Path) -> None:
    shipped = {name for name in ZipFile(wheel).namelist() if name.endswith(".py")}
    expected = {file.path for file in source_files() if not file.path.startswith("tests/")}
    assert shipped == {f"tierlog/{path}" for path in expected}


def test_what_is_no_module_but_needed_is_in_the_wheel_too(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    bench = {"kafka/pom.xml", "reporting/report.html.jinja", "reporting/prices.example.toml"}
    assert {"tierlog/py.typed", *(f"tierlog/bench/{name}" for name in bench)} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_wheel_brings_its_commands(wheel: Path) -> None:
    (name,) = (name for name in ZipFile(wheel).namelist() if name.endswith("/entry_points.txt"))
    commands = ZipFile(wheel).read(name).decode()
    assert "tierlog = tierlog.broker.__main__:main" in commands
    assert "tierlog-bench = tierlog.bench.__main__:main" in commands


def test_the_benchmark_lists_its_scenarios_from_where_it_is_installed(
    wheel: Path, tmp_path: Path
) -> None:
    ZipFile(wheel).extractall(tmp_path)
    answer = subprocess.run(
        [sys.executable, "-m", "tierlog.bench", "list"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "kip405_catch_up" in answer.stdout, answer.stderr


def test_the_wheel_runs_from_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    """Unpacked beside nothing else, it is importable and its command line answers."""
    ZipFile(wheel).extractall(tmp_path)
    program = "import sys, tierlog.broker.__main__ as m; sys.exit(m.main(['--version']))"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert tierlog.__version__ in answer.stdout, answer.stderr
