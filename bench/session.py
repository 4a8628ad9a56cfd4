"""One `tierlog-bench run`, from its options to its report."""

import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..tiering.store.remote_url import RemoteUrl
from .figures import Failure, ResultsWriter, read_results
from .harness.targets.target import Target, TargetUnavailableError
from .machine import commit, file_system, machine_facts, versions
from .progress import Progress, count, duration, progress_for
from .runner import Runner, Settings
from .scenario import Scale, Scenario
from .schedule import Part, schedule
from .summary import summary

_MEMORY = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True)
class Order:
    """The options of one run."""

    scenarios: Sequence[Scenario]
    targets: Sequence[Target]
    scale: Scale
    tier: str | None = None
    out: Path | None = None
    scratch: Path | None = None
    repeats: int | None = None
    only: re.Pattern[str] | None = None
    write_report: Callable[[Path], Path] | None = None


def run(order: Order, progress: Progress | None = None) -> int:
    """Measure; returns 0 if every run counted, 1 if one failed or nothing was measured.

    Raises TargetUnavailableError, NothingChosenError and ResultsError before anything is started.
    An interrupt is raised again once all brokers have ended and all measurements are written.
    """
    progress = progress or progress_for()
    _check(order.targets, progress)
    parts = schedule(order.scenarios, order.targets, order.scale, order.repeats, order.only)
    out = order.out or Path("bench-results") / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}"
    writer = ResultsWriter(out)
    _announce(parts, order, out, progress)
    with _scratch(order.scratch) as folder:
        facts = _facts(order, parts, Path(folder))
        writer.write_machine(facts)
        if file_system(Path(folder)) in _MEMORY:
            progress.report(
                f"{folder} is memory, not a disk: use --scratch DIR for meaningful figures"
            )
        runner = Runner(writer, progress, Settings(order.scale, Path(folder), order.tier))
        began = time.monotonic()
        facts["interrupted"] = True
        try:
            runner.run(parts)
            facts["interrupted"] = False
        finally:
            facts["ended"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            facts["seconds"] = round(time.monotonic() - began, 1)
            facts["took_seconds"] = {n: round(s, 1) for n, s in runner.took_seconds.items()}
            writer.write_machine(facts)
            _conclude(runner, out)
    if order.write_report is not None and runner.counted:
        print(f"report: {order.write_report(out)}", flush=True)
    return 1 if runner.failures or not runner.counted else 0


def _scratch(stated: Path | None) -> AbstractContextManager[str]:
    if stated is not None:
        stated.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="tierlog-bench-", dir=stated)


def _check(targets: Sequence[Target], progress: Progress) -> None:
    for target in targets:
        progress.report(f"{target.name}: checking what it needs")
        try:
            target.check()
        except TargetUnavailableError as error:
            raise TargetUnavailableError(f"target {target.name}: {error}") from error


def _announce(parts: Sequence[Part], order: Order, out: Path, progress: Progress) -> None:
    """Show what will be measured, and the expected time."""
    refused: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        for refusal in part.refused:
            refused.setdefault((refusal.scenario, refusal.reason), []).append(refusal.case)
    for (scenario, reason), cases in refused.items():
        progress.report(f"left out: {scenario} ({count(len(cases), 'case')}): {reason}")
    expected = sum(part.expected_seconds for part in parts)
    runs = sum(part.runs for part in parts)
    names = ", ".join(target.name for target in order.targets)
    progress.report(
        f"{count(len(parts), 'scenario')}, {count(runs, 'run')} at {names}: "
        f"{duration(expected)}; results in {out}"
    )


def _facts(order: Order, parts: Sequence[Part], scratch: Path) -> dict[str, object]:
    all_versions = versions()
    for target in order.targets:
        all_versions |= target.versions()
    return {
        "machine": machine_facts(scratch),
        "versions": all_versions,
        "commit": commit(),
        "options": {
            "scenarios": [scenario.name for scenario in order.scenarios],
            "targets": [target.name for target in order.targets],
            "scale": str(order.scale),
            "only": order.only.pattern if order.only else None,
            # Without any user info in the URL.
            "tier": str(RemoteUrl(order.tier)) if order.tier else None,
        },
        "plans": {
            part.scenario.name: {
                "warm_up": part.plan.warm_up,
                "repeats": part.plan.repeats,
                "expected_seconds": round(part.expected_seconds, 1),
            }
            for part in parts
        },
        "refused": [refusal._asdict() for part in parts for refusal in part.refused],
        "started": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "ended": None,
        "seconds": None,
        "interrupted": False,
    }


def _conclude(runner: Runner, out: Path) -> None:
    """Print the medians to standard output, and the failures to standard error."""
    print(summary(read_results(out).figures), flush=True)
    if runner.failures:
        print(_failed(runner.failures), file=sys.stderr)


def _failed(failures: Sequence[Failure]) -> str:
    lines = [f"{count(len(failures), 'run')} failed, in no figure:"]
    for failure in failures:
        kind = ", tiered" if failure.tiered else ""
        lines.append(
            f"  {failure.scenario}, {failure.case}, {failure.target}{kind}: {failure.reason}"
        )
    return "\n".join(lines)
