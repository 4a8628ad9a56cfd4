"""Where only `pip install tierlog` was run, what needs the extra says how to get it."""

import subprocess
import sys

import pytest

from tierlog.tests.house_rules import ROOT

_WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('pyspark', 'py4j', 'pyarrow', 'numpy', 'pandas'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Hidden())
"""


def without_the_extra(program: str) -> subprocess.CompletedProcess[str]:
    """What a program says where PySpark and what comes with it are not installed."""
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT + program],
        env={"PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["audit", "--url", "file:///tier"], []])
def test_the_command_says_in_one_line_what_to_install(arguments: list[str]) -> None:
    answer = without_the_extra(
        f"from tierlog.pipeline.spark.__main__ import main; sys.exit(main({arguments!r}))"
    )
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert line.startswith("tierlog: py")
    assert " is not installed: pip install 'tierlog[spark]'" in line


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("from tierlog.pipeline.spark.source import TierlogDataSource", "spark"),
        ("from tierlog.pipeline.spark.session import spark_session", "spark"),
        ("from tierlog.tables import scan", "arrow"),
    ],
)
def test_an_import_says_what_to_install(statement: str, extra: str) -> None:
    answer = without_the_extra(statement)
    assert answer.returncode == 1
    last = answer.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f" is not installed: pip install 'tierlog[{extra}]'" in last
    assert "During handling" not in answer.stderr
