"""A test that failed is tried again with fixtures of its own: a fair second try."""

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


def test_a_second_try_meets_nothing_of_the_first(tmp_path: Path) -> None:
    stories = tmp_path / "test_stories.py"
    stories.write_text(STORIES)
    plugins = ("-p", "tierlog.tests.conftest", "-p", "no:cacheprovider")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "--reruns", "1", stories],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed, 1 rerun" in run.stdout, run.stdout
