"""A story that failed leaves nothing to the next one; one that had no time left is counted.

And no story has less time than its tools take on a busy machine.
"""

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

def test_a_story_that_fails(cluster):
    cluster.append("t")
    assert not cluster

def test_the_story_after_it(cluster):
    assert not cluster, "TOPIC_ALREADY_EXISTS"
"""


LIMITS = """
import pytest

def limit_of(request):
    mark = request.node.get_closest_marker("timeout")
    return mark and mark.args[0]

def test_of_python(request):
    assert limit_of(request) is None

@pytest.mark.timeout(600)
def test_of_python_with_a_limit(request):
    assert limit_of(request) == 600

@pytest.mark.requires("TOOL")
def test_of_a_tool(request):
    assert limit_of(request) == 900

@pytest.mark.requires("TOOL")
@pytest.mark.timeout(600)
def test_of_a_tool_with_a_short_limit(request):
    assert limit_of(request) == 900

@pytest.mark.requires("TOOL")
@pytest.mark.timeout(1800)
def test_of_a_tool_with_a_long_limit(request):
    assert limit_of(request) == 1800
"""


def run(folder: Path, *options: str, text: str = STORIES) -> str:
    """What pytest prints of the stories in `text`."""
    stories = folder / "test_stories.py"
    stories.write_text(text)
    plugins = ("-p", "tierlog.tests.conftest", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, stories],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_the_story_after_one_that_failed_meets_nothing_of_it(tmp_path: Path) -> None:
    printed = run(tmp_path)
    assert "1 failed, 1 passed" in printed, printed


def test_what_a_slow_machine_has_no_time_for_is_counted(tmp_path: Path) -> None:
    printed = run(tmp_path, "--begin-within", "0")
    assert "2 skipped" in printed, printed
    assert "no time left for this test: 2; `--begin-within` says how long" in printed, printed


def test_a_story_of_a_tool_has_the_time_that_a_busy_machine_takes(tmp_path: Path) -> None:
    # A Python is a tool like others, and one that is there.
    tool = f"python{sys.version_info.major}.{sys.version_info.minor}"
    printed = run(tmp_path, text=LIMITS.replace("TOOL", tool))
    assert "5 passed" in printed, printed
