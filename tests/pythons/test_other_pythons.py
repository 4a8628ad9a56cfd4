"""The stories of `test_story.py` on each other Python that the machine has."""

import re
from pathlib import Path

import pytest

from tierlog.tests.pythons.deprecations import deprecations_of_ours
from tierlog.tests.pythons.environments import STORY, python_with
from tierlog.tests.pythons.interpreters import OWN, VERSIONS, find

STORIES = str(Path(__file__).with_name("test_story.py"))
OTHERS = [
    pytest.param(version, marks=pytest.mark.requires(f"python{version}"))
    for version in VERSIONS
    if version != OWN
]


@pytest.mark.timeout(1200)  # an environment is filled before the first story
@pytest.mark.parametrize("version", OTHERS)
def test_all_stories_are_the_same_on_another_python(version: str, tmp_path: Path) -> None:
    interpreter = find(version)
    assert interpreter is not None
    python = python_with(interpreter, *STORY)
    options = ("-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "stories"))
    answer = interpreter.run([python, "-m", "pytest", *options, STORIES], 900)
    ends = re.search(r"^(\d+) passed in ", answer.stdout, re.MULTILINE)
    assert ends is not None, answer.stdout[-4000:] + answer.stderr
    assert answer.returncode == 0


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        ("/x/.namespace/tierlog/clients/a.py:3: DeprecationWarning: 'b' is deprecated", True),
        ("/x/site-packages/tierlog/a.py:3: PendingDeprecationWarning: soon", True),
        ("/x/site-packages/botocore/auth.py:9: DeprecationWarning: utcnow()", False),
        ("/x/tierlog/clients/a.py:3: UserWarning: not one", False),
    ],
)
def test_only_what_is_deprecated_in_our_own_modules_fails_a_story(line: str, is_ours: bool) -> None:
    assert bool(deprecations_of_ours(f"one\n{line}\nanother")) == is_ours
