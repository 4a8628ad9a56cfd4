"""A test that failed has a fair second try; one for which the run has no time left is counted."""

import subprocess
import sys
from pathlib import Path

STORIES = """
import pytest

topics = []

@pytest.fixture(scope="module")
def cluster():
    topics.clear()
    yield topics
    topics.clear()

tries = []

def test_a_story_that_fails_once(cluster):
    assert "t" not in cluster, "TOPIC_ALREADY_EXISTS"
    cluster.append("t")
    tries.append(1)
    assert len(tries) == 2

def test_the_story_after_it(cluster):
    assert cluster == ["t"]
"""


def run(folder: Path, *options: str) -> str:
    """What pytest prints of the stories above."""
    stories = folder / "test_stories.py"
    stories.write_text(STORIES)
    plugins = ("-p", "tierlog.tests.conftest", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, stories],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_a_second_try_meets_nothing_of_the_first(tmp_path: Path) -> None:
    printed = run(tmp_path, "--reruns", "1")
    assert "2 passed, 1 rerun" in printed, printed


def test_what_a_slow_machine_has_no_time_for_is_counted(tmp_path: Path) -> None:
    printed = run(tmp_path, "--begin-within", "0")
    assert "2 skipped" in printed, printed
    assert "no time left for this test: 2; `--begin-within` says how long" in printed, printed
