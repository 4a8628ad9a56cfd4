"""The entry point of `tierlog-bench`, or `python -m tierlog.bench`.

Exit codes: 0 if every run succeeded; 1 if a run failed; 2 if the command cannot run, with a message
that says what to do; 130 and 143 if interrupted or terminated, after ending every broker that was
started and keeping all measurements.
"""

import shlex
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from ..clients.runtime.supported_system import refusal

if (_message := refusal()) is not None:
    raise SystemExit(f"tierlog-bench: {_message}")

from ..clients.errors import KafkaError
from ..tiering.store.remote_url import RemoteUrl
from .command_line import WrongOptionError, build_parser, default_targets, parse_options
from .figures import ResultsError
from .harness.targets.named import target_named
from .harness.targets.target import TargetUnavailableError
from .progress import count, duration
from .scenario import Scale
from .scenarios.catalogue import ALL, SCENARIOS, UnknownScenarioError, scenarios_named
from .schedule import NothingChosenError, schedule
from .sizing.model import PlanError
from .sizing.size_command import size

_EXTRA = frozenset(
    {"confluent_kafka", "cryptography", "hdrh", "jinja2", "matplotlib", "moto", "rich"}
)
_MESSAGES = (
    NothingChosenError,
    PlanError,
    ResultsError,
    TargetUnavailableError,
    UnknownScenarioError,
    WrongOptionError,
)
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_CANNOT = 2
_INTERRUPTED = 128 + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    # On SIGTERM or SIGHUP, still end the brokers that were started.
    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _terminate)
    try:
        return _answer(arguments)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _answer(arguments: Sequence[str] | None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        return _carry_out(options)
    except _MESSAGES as error:
        return _cannot(str(error))
    except KafkaError as error:
        return _cannot(error.message)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        command = install_command(sys.executable, has_pip=find_spec("pip") is not None)
        return _cannot(f"{error.name} is not installed; get it with: {command}")
    except KeyboardInterrupt:
        print("tierlog-bench: interrupted; every broker was ended", file=sys.stderr)
        return _INTERRUPTED


def install_command(python: str, *, has_pip: bool) -> str:
    """A command for a shell that installs the extra for `python`, from a clone or from an index."""
    clone = Path(__file__).resolve().parent.parent
    what = ["-e", f"{clone}[bench]"] if (clone / "pyproject.toml").exists() else ["tierlog[bench]"]
    # Environments that uv makes have no pip.
    pip = (
        [python, "-m", "pip", "install"]
        if has_pip
        else ["uv", "pip", "install", "--python", python]
    )
    return shlex.join([*pip, *what])


def _terminate(number: int, _frame: object) -> NoReturn:
    # A second signal must not interrupt the shutdown that the first one started.
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _cannot(message: str) -> int:
    print(f"tierlog-bench: {message}", file=sys.stderr)
    return _CANNOT


def _carry_out(options: Namespace) -> int:
    if options.command == "list":
        return _list(options.scale)
    if options.command in ("run", "torture") and not Path("/proc/self/stat").exists():
        return _cannot("it measures by what Linux has in /proc: run it on Linux")
    if options.command == "run":
        return _run(options)
    if options.command == "size":
        print(size(options))
        return 0
    if options.command == "compare":
        from .reporting.comparison import compare

        print(compare(options.before, options.after))
        return 0
    if options.command == "torture":
        # What it needs is in the extra, and the other commands do not need it.
        from .torture.command import torture

        return torture(options)
    return _report(options)


def _report(options: Namespace) -> int:
    from .reporting.price_list import PriceListError
    from .reporting.report import write_report

    try:
        print(write_report(options.directory, options.prices))
    except PriceListError as error:
        return _cannot(str(error))
    return 0


def _list(scale: Scale) -> int:
    targets = [target_named(name, {}) for name in default_targets(Scale.SMALL)]
    parts = schedule(ALL, targets, scale)
    usual = [part for part in parts if part.scenario in SCENARIOS]
    width = max(len(part.scenario.name) for part in parts)
    for part in parts:
        cases = count(len(part.scenario.cases(scale)), "case")
        print(f"{part.scenario.name:{width}}  {part.scenario.summary}")
        named = "" if part in usual else "; runs only if named"
        print(f"{'':{width}}  {cases}, {duration(part.expected_seconds)}{named}")
    names = " and ".join(target.name for target in targets)
    total = sum(part.expected_seconds for part in usual)
    print(f"\n`run` at scale {scale}, {names}: {duration(total)}")
    return 0


def _run(options: Namespace) -> int:
    scenarios = scenarios_named(options.scenarios)
    tier_options = parse_options(options.tier_options)
    if options.tier is not None:
        RemoteUrl(options.tier)
    elif tier_options:
        raise WrongOptionError(
            "--tier-option is for the file system of --tier, and there is no --tier."
        )
    names = dict.fromkeys(options.targets or default_targets(options.scale))
    targets = [target_named(name, tier_options) for name in names]
    # Imported here to fail now if the extra is missing, not after a quarter of an hour.
    from .reporting.report import write_report
    from .session import Order, run

    return run(
        Order(
            scenarios,
            targets,
            options.scale,
            options.tier,
            options.out,
            options.scratch,
            options.repeats,
            options.only,
            write_report,
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
