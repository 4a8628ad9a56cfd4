"""Every file of tests in docs/testing.md and README passes, in a project that has nothing else."""

import re
from pathlib import Path

import pytest

from tierlog.bench.kafka_peer import KafkaNode
from tierlog.tests.broker.testing.plugin_runs import run
from tierlog.tests.house_rules import ROOT

_FILE = re.compile(r"```python\n# (test_\w+\.py)\n(.*?)```", re.DOTALL)
PAGES = ("docs/testing.md", "README.md")
FILES = {name: text for page in PAGES for name, text in _FILE.findall((ROOT / page).read_text())}


def write_page(project: Path) -> None:
    """Each file of the page, of both pages as a reader would copy it."""
    for name, text in FILES.items():
        (project / name).write_text(text)


@pytest.mark.slow
def test_every_file_of_the_page_passes(tmp_path: Path) -> None:
    assert len(FILES) == 9, FILES.keys()
    write_page(tmp_path)
    ran = run(tmp_path, "-n", "2", "-rf")
    assert "10 passed" in ran.stdout, ran.stdout
    assert "failed" not in ran.stdout, ran.stdout


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_every_file_of_the_page_passes_at_apache_kafka(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    write_page(project)
    with KafkaNode(tmp_path / "kafka", heap="512m") as kafka:
        ran = run(project, "-rs", "--kafka-bootstrap", kafka.bootstrap)
    assert "9 passed, 1 skipped" in ran.stdout, ran.stdout
    assert "Broker.offload needs a broker that the test has started" in ran.stdout, ran.stdout
