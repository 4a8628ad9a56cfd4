"""What every test run shares: which tests are slow, and what is said at the end of a run.

That is which toolchains were missing, and where the README's table of clients and tools differs
from what a whole run has started (`--compare-table`).
"""

import re
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tierlog.tests import toolchain
from tierlog.tests.compatibility.ran import RanPlugin
from tierlog.tests.compatibility.table import CompareTable

# Folders whose tests start processes or run long: `make test` runs them, `make check` does not.
SLOW_FOLDERS = frozenset({"compatibility", "conformance", "end_to_end", "fuzz"})
SKIP_PREFIX = "toolchain missing: "
SKIP_REASON = re.compile(SKIP_PREFIX + r"([^'\")]+)")
TESTS = Path(__file__).parent

# No test asserts how long something takes: it would fail on a busy machine.
settings.register_profile("tierlog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tierlog")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", help="simulations to run: 7, or 0-99; 0-4 if nothing is said")
    parser.addoption("--compare-table", metavar="README", help="this run is whole: compare it")


def pytest_configure(config: pytest.Config) -> None:
    ran = RanPlugin()
    config.pluginmanager.register(ran, "ran")
    readme = config.getoption("--compare-table")
    # Where there are workers, only their controller hears of everything.
    if readme and not hasattr(config, "workerinput"):
        config.pluginmanager.register(CompareTable(Path(str(readme)), ran), "compare-table")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A simulation runs once for each seed; one that failed is run again with `--seeds N`."""
    if "simulation_seed" in metafunc.fixturenames:
        own = metafunc.definition.get_closest_marker("seeds")
        usual = str(own.args[0]) if own else "0-4"
        stated = metafunc.config.getoption("--seeds")
        first, _, last = str(stated or usual).partition("-")
        metafunc.parametrize("simulation_seed", range(int(first), int(last or first) + 1))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # The micro-benchmarks of bench/ may run along.
        parts = item.path.relative_to(TESTS).parts if item.path.is_relative_to(TESTS) else ()
        if SLOW_FOLDERS.intersection(parts):
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    needed = tuple(str(name) for mark in item.iter_markers("requires") for name in mark.args)
    absent = toolchain.missing(needed)
    if absent:
        pytest.skip(SKIP_PREFIX + ", ".join(chain.title for chain in absent))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    """Say last, after pytest's own sections, what this machine could not run."""
    yield
    not_run: Counter[str] = Counter()
    for skipped in terminalreporter.getreports("skipped"):
        found = SKIP_REASON.search(skipped.longreprtext)
        if found:
            not_run.update(found[1].split(", "))
    terminalreporter.ensure_newline()
    for line in toolchain.report(not_run):
        terminalreporter.write_line(line)
