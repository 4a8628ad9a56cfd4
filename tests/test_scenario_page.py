"""Every scenario of tiered storage is told by a test, and the page says by which."""

from pathlib import Path

from tierlog.tests.scenario_page import PAGE, ROOT, SCENARIOS, marks_by_scenario, page


def test_the_committed_page_is_what_the_marks_say() -> None:
    assert PAGE.read_text() == page(), "run `make scenarios`"


def test_every_scenario_is_reported_and_every_mark_is_one() -> None:
    assert marks_by_scenario(ROOT / "tests").keys() == SCENARIOS.keys()


def test_marks_of_a_test_and_of_its_module_count(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_door.py").write_text(
        "import pytest\n"
        'pytestmark = [pytest.mark.scenario("7"), pytest.mark.slow]\n'
        '@pytest.mark.scenario("2.1", "2.4")\n'
        "def test_it_opens() -> None: ...\n"
        "def test_it_shuts() -> None: ...\n"
        '@pytest.mark.scenario("6")\n'
        "def push() -> None: ...\n"
    )
    opens, shuts = (f"tests/test_door.py::test_it_{verb}" for verb in ("opens", "shuts"))
    assert marks_by_scenario(folder) == {"7": [opens, shuts], "2.1": [opens], "2.4": [opens]}
