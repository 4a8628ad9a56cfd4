"""`make quick` runs the tests of what has changed, and no others."""

from pathlib import Path

import pytest

from tierlog.tests.quick import mirrored_tests


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path in (
        "storage/log/unified_log.py",
        "storage/files.py",
        "storage/attic/chest.py",
        "cli/serve.py",
        "tests/storage/test_files.py",
        "tests/storage/log/test_unified_log.py",
        "tests/storage/log/test_offsets.py",
        "tests/storage/log/log_story.py",
        "tests/test_docs.py",
        "tests/quick.py",
        "tests/test_quick.py",
        "tests/waiting.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (
            "storage/log/unified_log.py",
            ["tests/storage/log/test_offsets.py", "tests/storage/log/test_unified_log.py"],
        ),
        ("storage/log", ["tests/storage/log"]),
        ("storage/files.py", ["tests/storage/test_files.py"]),
        ("storage/attic/chest.py", ["tests/storage/test_files.py"]),
        ("storage/attic", ["tests/storage/test_files.py"]),
        ("tests/storage/log/test_offsets.py", ["tests/storage/log/test_offsets.py"]),
        (
            "tests/storage/log/log_story.py",
            ["tests/storage/log/test_offsets.py", "tests/storage/log/test_unified_log.py"],
        ),
        ("tests/quick.py", ["tests/test_quick.py"]),
        ("tests/waiting.py", []),
        ("cli/serve.py", []),
        ("README.md", []),
    ],
)
def test_a_change_is_tested_by_the_tests_of_its_room(
    tree: Path, changed: str, tests: list[str]
) -> None:
    assert mirrored_tests([changed], tree) == tests


def test_changes_of_one_room_run_its_tests_once(tree: Path) -> None:
    changed = ["storage/files.py", "storage/attic/chest.py"]
    assert mirrored_tests(changed, tree) == ["tests/storage/test_files.py"]
