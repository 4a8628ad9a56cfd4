"""Which test, or which fixture, is running: requests that come now belong to its section."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Running(NamedTuple):
    """A test or fixture of a test file."""

    test_file: Path
    title: str
    is_recorded: bool
    """Whether the test has the mark `recorded`; the Kafka of any other is live."""


_running: list[Running] = []


def running() -> Running:
    """What is running. There is always a test, where this is asked."""
    assert _running, "no test is running"
    return _running[-1]


def begin_test(running: Running) -> None:
    """A test runs from here on, with its fixtures, until the next one."""
    _running[:] = [running]


@contextmanager
def shared_fixture(title: str) -> Generator[None]:
    """While a fixture that several tests share is set up."""
    outer = running()
    _running.append(outer._replace(title=f"fixture {title}"))
    try:
        yield
    finally:
        _running.pop()
