"""What every test run shares: which tests are slow or long, and what is said at the end of a run.

That is which toolchains were missing, which seeds a long run had no time for, and where the
table of docs/clients.md differs from what a whole run has started (`--compare-table`).
"""

import re
import signal
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tierlog.tests import async_tests, module_memory, toolchain
from tierlog.tests.compatibility.ran import RanPlugin
from tierlog.tests.compatibility.table import CompareTable
from tierlog.tests.recordings import run as recordings

# Folders whose tests start processes or run long: `make check` leaves them out.
SLOW_FOLDERS = frozenset({"compatibility", "conformance", "end_to_end", "fuzz", "pythons"})
# Toolchains that `make test` may use; a test that needs another one is in `make test-kafka`.
OF_PYTHON = frozenset({"cc", "strace"})
# Tests with one of these marks may start a JVM or build a foreign client. Beside four busy programs
# that takes several times as long as alone, and a test that is ended in the middle of a call may
# break what the next ones share. So their time limit is this at least; a longer one stands.
HEAVY_MARKS = ("tools", "recorded", "compatibility")
HEAVY_LIMIT_S = 900
SKIP_PREFIX = "toolchain missing: "
SKIP_REASON = re.compile(SKIP_PREFIX + r"([^'\")]+)")
OUT_OF_TIME = "no time left for this seed"
LATE = "no time left for this test"
TESTS = Path(__file__).parent

pytest_plugins = ["tierlog.tests.recordings.plugin"]

# No test asserts how long something takes: it would fail on a busy machine.
settings.register_profile("tierlog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tierlog")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", help="simulations to run: 7, or 0-99; 0-4 if nothing is said")
    parser.addoption("--minutes", type=float, help="begin no further seed of a long run after that")
    parser.addoption("--begin-within", type=float, help="minutes; begin no further test after them")
    parser.addoption("--compare-table", metavar="PAGE", help="this run is whole: compare it")


collect_ignore = ["foreign_suite"]
"""A project of its own, with plug-ins that are not installed here (`pythons/`)."""

_run_began = pytest.StashKey[float]()
_has_failed = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_run_began] = time.monotonic()
    config.pluginmanager.register(async_tests, "async-tests")
    config.pluginmanager.register(module_memory, "module-memory")
    ran = RanPlugin()
    config.pluginmanager.register(ran, "ran")
    page = config.getoption("--compare-table")
    # Where there are workers, only their controller hears of everything.
    if page and not hasattr(config, "workerinput"):
        config.pluginmanager.register(CompareTable(Path(str(page)), ran), "compare-table")


@pytest.fixture
def hangups_end_processes() -> Generator[None]:
    """SIGHUP has its usual effect on what is started, also where the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A simulation runs once for each seed; one that failed is run again with `--seeds N`."""
    if "simulation_seed" not in metafunc.fixturenames:
        return
    own = metafunc.definition.get_closest_marker("seeds")
    stated = metafunc.config.getoption("--seeds")
    if stated:
        metafunc.parametrize("simulation_seed", _seeds(str(stated)))
        return
    usual = _seeds(str(own.args[0]) if own else "0-4")
    more = _seeds(str(own.kwargs["long"])) if own and "long" in own.kwargs else range(0)
    longer = [pytest.param(seed, marks=pytest.mark.long) for seed in more]
    metafunc.parametrize("simulation_seed", [*usual, *longer])


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # The micro-benchmarks of bench/ may run along.
        parts = item.path.relative_to(TESTS).parts if item.path.is_relative_to(TESTS) else ()
        if SLOW_FOLDERS.intersection(parts) or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)
        needed = {str(name) for mark in item.iter_markers("requires") for name in mark.args}
        if needed - OF_PYTHON:
            item.add_marker(pytest.mark.tools)
        if "compatibility" in parts:
            item.add_marker(pytest.mark.compatibility)
        if any(item.get_closest_marker(name) for name in HEAVY_MARKS):
            stated = item.get_closest_marker("timeout")
            limit_s = max(HEAVY_LIMIT_S, int(stated.args[0]) if stated else 0)
            item.add_marker(pytest.mark.timeout(limit_s), append=False)


def pytest_runtest_setup(item: pytest.Item) -> None:
    needed = tuple(str(name) for mark in item.iter_markers("requires") for name in mark.args)
    needed += recordings.toolchains() if item.get_closest_marker("recorded") else ()
    absent = toolchain.missing(needed)
    if absent:
        pytest.skip(SKIP_PREFIX + ", ".join(chain.title for chain in absent))
    minutes = item.config.getoption("--minutes")
    is_seed = "simulation_seed" in getattr(item, "fixturenames", ())
    if minutes is not None and is_seed and _minutes_of(item.config) > float(str(minutes)):
        pytest.skip(OUT_OF_TIME)
    within = item.config.getoption("--begin-within")
    if within is not None and _minutes_of(item.config) > float(str(within)):
        pytest.skip(LATE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.when != "teardown":
        item.stash[_has_failed] = True
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Keep no fixture of a test that failed, whatever its scope.

    The next story of its module would meet the topics, killed brokers and paused processes that it
    left, and one failure would look like many.
    """
    if item.stash.get(_has_failed, False):
        item.stash[_has_failed] = False
        # pytest has no public way to take down the fixtures of a module before its end.
        item.session._setupstate.teardown_exact(None)  # pyright: ignore[reportPrivateUsage]


def _minutes_of(config: pytest.Config) -> float:
    return (time.monotonic() - config.stash[_run_began]) / 60


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    """Say last, after pytest's own sections, what this machine or this time could not run."""
    yield
    not_run: Counter[str] = Counter()
    out_of_time = late = 0
    for skipped in terminalreporter.getreports("skipped"):
        out_of_time += OUT_OF_TIME in skipped.longreprtext
        late += LATE in skipped.longreprtext
        found = SKIP_REASON.search(skipped.longreprtext)
        if found:
            not_run.update(found[1].split(", "))
    terminalreporter.ensure_newline()
    for line in toolchain.report(not_run):
        terminalreporter.write_line(line)
    if late:
        terminalreporter.write_line(f"{LATE}: {late}; `--begin-within` says how long")
    if out_of_time:
        terminalreporter.write_line(f"{OUT_OF_TIME}: {out_of_time}; `--minutes` says how long")
