"""The part of recordings that pytest calls: the option, and which section is running."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import run, sections

_has_passed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kafka",
        choices=run.MODES,
        default=run.RECORDED,
        help="what answers for Kafka: its recorded answers, itself, or itself while recorded anew",
    )


def pytest_configure(config: pytest.Config) -> None:
    run.choose(str(config.getoption("--kafka")))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    if fixturedef.scope == "function":
        return (yield)
    param = f"[{request.param}]" if hasattr(request, "param") else ""
    title = f"{fixturedef.argname}{param}"
    with sections.shared_fixture(title):
        running = sections.running()
        run.begin_section(running.test_file, running.title)
        value = yield
        run.end_section(running.test_file, running.title)
        return value


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    title = item.nodeid.partition("::")[2]
    is_recorded = item.get_closest_marker("recorded") is not None
    sections.begin_test(sections.Running(item.path, title, is_recorded))
    run.begin_section(item.path, title)
    with _missing_requests():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    with _missing_requests():
        yield
    item.stash[_has_passed] = True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    with _missing_requests():
        yield
    # Its fixtures, too, may ask something at their end.
    if item.stash.get(_has_passed, False):
        run.end_section(item.path, item.nodeid.partition("::")[2])


@contextmanager
def _missing_requests() -> Generator[None]:
    """Name a request that was not in the recording, rather than what it led to."""
    try:
        yield
    except BaseException as error:
        try:
            run.check()
        except AssertionError as missed:
            raise missed from error
        raise
    run.check()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if run.chosen() != run.RECORD:
        return
    is_whole = not session.config.getoption("keyword") and not any(
        "::" in str(argument) for argument in session.config.args
    )
    titles: dict[Path, set[str]] = {}
    for item in session.items:
        titles.setdefault(item.path, set()).add(item.nodeid.partition("::")[2])
    run.save(titles if is_whole else None)
