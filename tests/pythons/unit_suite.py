"""The unit suite on each Python that tierlog supports: `make test-pythons`.

    python -m tierlog.tests.pythons.unit_suite 3.14 --workers 2

A Python that is nowhere on the machine is looked for in a root of Debian's unstable suite, which is
made where that can be done. One that cannot be had is named, and the whole counts as failed.
"""

import argparse
import re
import sys

from tierlog.tests.pythons import debian_root
from tierlog.tests.pythons.environments import TESTS, python_with
from tierlog.tests.pythons.interpreters import VERSIONS, find

_WITHIN_S = 3600
_COUNTS = re.compile(r"^\d+ (?:passed|failed).* in [\d.]+s.*$", re.MULTILINE)


def outcome(version: str, workers: int) -> tuple[bool, str]:
    """Whether every unit test passes on a Python, and how pytest sums it up."""
    interpreter = find(version)
    if interpreter is None:
        return False, "is not on this machine"
    python = python_with(interpreter, *TESTS)
    options = ("-q", "-n", str(workers), "--dist", "loadfile", "-p", "no:cacheprovider", "-rfE")
    chosen = ("-m", "not slow and not long", "tests")
    answer = interpreter.run([python, "-m", "pytest", *options, *chosen], _WITHIN_S)
    counts = _COUNTS.findall(answer.stdout)
    if answer.returncode != 0:
        print(answer.stdout[-20_000:], answer.stderr, sep="\n")
    return answer.returncode == 0, counts[-1] if counts else "did not come to an end"


def main() -> int:
    parser = argparse.ArgumentParser(description="The unit suite on each Python.")
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="such as 3.14; else all")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest (2)")
    arguments = parser.parse_args()
    if any(find(version) is None for version in arguments.versions):
        if reason := debian_root.make():
            print(reason, file=sys.stderr)
        find.cache_clear()
    have_passed = True
    for version in arguments.versions:
        has_passed, said = outcome(version, arguments.workers)
        have_passed &= has_passed
        print(f"Python {version}: {said}", flush=True)
    return 0 if have_passed else 1


if __name__ == "__main__":
    sys.exit(main())
