"""What `make quick` does: the style and the unit tests of the folders that have changed.

    python -m tierlog.tests.quick                     # since main, and what is not committed
    python -m tierlog.tests.quick storage/log         # as if all of this folder had changed

A file of the product has its tests in the folder of the same name below `tests/`. Where a room has
none, those of the room around it are taken, without its other rooms.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tierlog.tests.house_rules import LAYERS, ROOT

_TOPS = frozenset({*LAYERS, "bench", "docker", "tests"})
_DESCRIPTION = "The style and the unit tests of the folders that have changed."
_TEST_FILES_MAX = 60
"""About what a minute is enough for."""

_NO_TESTS = 5
"""The exit code of pytest where nothing was selected."""


def changed_files() -> list[str]:
    """The files that differ from where this branch left main, and new ones that are not ignored."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    names = _git("diff", "--name-only", base[0])
    names += _git("ls-files", "--others", "--exclude-standard")
    return sorted({name for name in names if (ROOT / name).is_file()})


def _git(*words: str) -> list[str]:
    answer = subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    return answer.stdout.splitlines() if answer.returncode == 0 else []


def mirrored_tests(paths: Iterable[str], root: Path) -> list[str]:
    """The test files and folders of these files and folders, below `root`."""
    chosen: set[str] = set()
    for path in paths:
        parts = Path(path).parts
        if parts[0] not in _TOPS:
            continue
        if parts[0] == "tests":
            chosen.update(_own_tests(path, root))
        else:
            chosen.update(_mirrored(path, root))
    return sorted(chosen)


def _own_tests(path: str, root: Path) -> Iterable[str]:
    """A file of tests is run itself; what tests share is run by all tests beside it."""
    place = Path(path)
    if place.name.startswith("test_") or (root / path).is_dir():
        return [path]
    own = place.with_name(f"test_{place.name}")
    if (root / own).is_file():
        return [own.as_posix()]
    return [] if place.parent == Path("tests") else _tests_in(root / place.parent, root)


def _mirrored(path: str, root: Path) -> Iterable[str]:
    place = Path("tests") / path
    if (root / path).is_dir() and (root / place).is_dir():
        return [place.as_posix()]
    for folder in place.parents:
        if folder == Path("tests"):
            break
        if tests := _tests_in(root / folder, root):
            return tests
    return []


def _tests_in(folder: Path, root: Path) -> list[str]:
    """The files of tests of a folder, without those of its rooms."""
    return sorted(each.relative_to(root).as_posix() for each in folder.glob("test_*.py"))


def main() -> int:
    """Returns the exit code of the first step that fails."""
    parser = argparse.ArgumentParser(prog="make quick", description=_DESCRIPTION)
    parser.add_argument("folders", nargs="*", help="take these as changed, such as storage/log")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest (2)")
    arguments = parser.parse_args()
    if absent := [each for each in arguments.folders if not (ROOT / each).exists()]:
        parser.error(
            f"there is no {absent[0]} here: write a path from the root, such as storage/log"
        )
    changed = arguments.folders or changed_files()
    if not changed:
        print("Nothing has changed since main: name a folder, as in `make quick DIR=storage/log`.")
        return 0
    code = [each for each in changed if each.endswith(".py") or (ROOT / each).is_dir()]
    tests = mirrored_tests(changed, ROOT)
    if len(tests) > _TEST_FILES_MAX:
        print(f"{len(changed)} changed, with {len(tests)} files of tests: `make check` runs them.")
        return 1
    print(f"{len(changed)} changed, tests: {' '.join(tests) or 'none'}", flush=True)
    steps = [["ruff", "format", "--check", "--quiet", *code], ["ruff", "check", "--quiet", *code]]
    if tests:
        workers = str(arguments.workers)
        selection = ["-m", "not slow and not long", "-n", workers, "--dist", "loadfile"]
        steps.append(["pytest", "-q", *selection, *tests])
    for step in steps if code else steps[2:]:
        command = [str(Path(sys.executable).with_name(step[0])), *step[1:]]
        ended = subprocess.run(command, cwd=ROOT, check=False)
        if ended.returncode not in (0, _NO_TESTS):
            return ended.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
