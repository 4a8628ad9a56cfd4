"""docs/testing-faults.md can be followed word by word: each of its examples is run as it stands."""

import re
import runpy
from pathlib import Path

import pytest

from tierlog.testing.faults.faults import Faults
from tierlog.tests.house_rules import ROOT

PAGE = (ROOT / "docs" / "testing-faults.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", EXAMPLES, ids=lambda text: re.findall(r"def (test_\w+)", text)[0]
)
def test_an_example_passes_as_it_stands(example: str, tmp_path: Path) -> None:
    file = tmp_path / "test_example.py"
    file.write_text(example)
    names: dict[str, object] = runpy.run_path(str(file))
    (test,) = (each for name, each in names.items() if name.startswith("test_"))
    assert callable(test)
    test()


def test_the_page_names_every_fault_as_it_is_called() -> None:
    faults = Faults()
    for name in re.findall(r"^\| `faults\.tier\.(\w+)\(", PAGE, re.MULTILINE):
        assert callable(getattr(faults.tier, name))
    named = re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE)
    assert sorted(named) == ["delay", "drop", "fail", "silence", "throttle"]
    for name in named:
        assert callable(getattr(faults, name))
