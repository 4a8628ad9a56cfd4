"""Every file of tests that docs/testing.md shows passes, in a project that has nothing else."""

import re
from pathlib import Path

import pytest

from tierlog.tests.broker.testing.plugin_runs import run
from tierlog.tests.house_rules import ROOT

_FILE = re.compile(r"```python\n# (test_\w+\.py)\n(.*?)```", re.DOTALL)
FILES = dict(_FILE.findall((ROOT / "docs/testing.md").read_text()))


@pytest.mark.slow
def test_every_file_of_the_page_passes(tmp_path: Path) -> None:
    assert len(FILES) == 8, FILES.keys()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    ran = run(tmp_path, "-n", "2", "-rf")
    assert "9 passed" in ran.stdout, ran.stdout
    assert "failed" not in ran.stdout, ran.stdout
