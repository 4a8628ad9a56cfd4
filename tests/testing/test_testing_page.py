"""Every file of tests in docs/testing.md and README passes, in a project that has nothing else."""

import re
import sys
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.tests.compatibility.foreign_members import ready
from tierlog.tests.house_rules import ROOT
from tierlog.tests.testing.plugin_runs import run

_FILE = re.compile(r"```python\n# (test_\w+\.py)\n(.*?)```", re.DOTALL)
PAGES = ("docs/testing.md", "README.md")
FILES = {name: text for page in PAGES for name, text in _FILE.findall((ROOT / page).read_text())}
LIBRARIES = {"test_quix_streams.py": "quix_streams", "test_faust.py": "faust"}
"""What cannot share an environment with the other clients, and the folder of its versions."""
SPARK = "test_spark.py"
QUICK = [name for name in FILES if name not in LIBRARIES and name != SPARK]


def write_page(project: Path, names: list[str]) -> None:
    """Files of both pages as a reader would copy them."""
    for name in names:
        (project / name).write_text(FILES[name])


@pytest.mark.slow
def test_every_file_of_the_pages_passes(tmp_path: Path) -> None:
    assert len(QUICK) == 10, FILES.keys()
    write_page(tmp_path, QUICK)
    ran = run(tmp_path, "-n", "2", "-rf")
    assert "11 passed" in ran.stdout, ran.stdout
    assert "failed" not in ran.stdout, ran.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_with_versions_of_its_own_passes(tmp_path: Path, name: str) -> None:
    write_page(tmp_path, [name])
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    chosen = ("--no-deps", "--target", "packages", "--requirement", "requirements.txt")
    packages = ready(LIBRARIES[name], (*pip, *chosen)) / "packages"
    ran = run(tmp_path, packages=packages)
    assert "1 passed" in ran.stdout, ran.stdout


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_spark_passes(tmp_path: Path) -> None:
    write_page(tmp_path, [SPARK])
    ran = run(tmp_path)
    assert "1 passed" in ran.stdout, ran.stdout


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_every_file_of_the_pages_passes_at_apache_kafka(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    write_page(project, QUICK)
    with KafkaNode(tmp_path / "kafka", heap="512m") as kafka:
        ran = run(project, "-rs", "--kafka-bootstrap", kafka.bootstrap)
    assert "10 passed, 1 skipped" in ran.stdout, ran.stdout
    assert "Broker.offload needs a broker that the test has started" in ran.stdout, ran.stdout
