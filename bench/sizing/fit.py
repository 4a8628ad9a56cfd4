"""The constants of the model as a run of the scenario `sizing` has them, and how good they are.

    tierlog-bench run sizing --out DIR
    python -m tierlog.bench.sizing.fit DIR            # what each would be, beside what it is
    python -m tierlog.bench.sizing.fit DIR --write    # put them into costs.py

Each constant has the least squares of relative errors. Those that the scenario does not measure
stay (`connection_kib`, `copied_gb_s`). Then, for each figure, what the model says divided by what
was measured: over all cases, and of those to which no constant was fitted (idle clusters of ten
brokers with few partitions, followers and readers together). After `--write`, run
`python -m tierlog.tests.sizing_page DIR`, which puts both into docs/sizing.md.
"""

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple, TypeVar

import numpy

from ..figures import ResultsError
from .costs import MEASURED, Costs
from .model import DEATH_HINT_S
from .runs import RUNS, IdleRun, LoadRun, read_runs

R = TypeVar("R", IdleRun, LoadRun)

_NODES = 3
_KIB_A_MIB = 1024
_PARTITIONS_FITTED_MIN = 1_000


class Equation(NamedTuple):
    """`measured` is the sum of the unknowns, each that often."""

    measured: float
    often: tuple[float, ...]


def solve(names: Sequence[str], equations: Sequence[Equation]) -> dict[str, float]:
    """The unknowns with the least squares of relative errors; no cost is below zero."""
    left = list(names)
    while left:
        columns = [names.index(name) for name in left]
        usable = [equation for equation in equations if equation.measured > 0]
        rows = [[each.often[at] / each.measured for at in columns] for each in usable]
        solution = numpy.linalg.lstsq(numpy.array(rows), numpy.ones(len(rows)), rcond=None)[0]
        least = min(range(len(left)), key=lambda at: float(solution[at]))
        if float(solution[least]) >= 0:
            values = dict(zip(left, (float(each) for each in solution), strict=True))
            return {name: values.get(name, 0.0) for name in names}
        del left[least]
    return dict.fromkeys(names, 0.0)


def _fitted_to(
    runs: Iterable[R],
    names: Sequence[str],
    measured: Callable[[R], float],
    often: Callable[[R], tuple[float, ...]],
) -> dict[str, float]:
    """The unknowns of an equation for each run."""
    return solve(names, [Equation(measured(run), often(run)) for run in runs])


def idle_costs(runs: Sequence[IdleRun]) -> dict[str, float]:
    """The constants that idle clusters show."""
    plain = [run for run in runs if not run.tiered]
    few = [run for run in plain if run.brokers == _NODES]
    return {
        **_fitted_to(
            plain,
            ("broker_mib", "led_kib", "followed_kib", "elsewhere_kib"),
            lambda run: run.figures["resident_mib"],
            lambda run: (
                1.0,
                run.led / _KIB_A_MIB,
                run.followed / _KIB_A_MIB,
                run.elsewhere / _KIB_A_MIB,
            ),
        ),
        **_fitted_to(
            plain,
            ("idle_broker_ms", "idle_replica_ms", "idle_fetcher_ms"),
            lambda run: run.figures["idle_cpu_s_per_minute"] / 60 * 1000,
            lambda run: (1.0, run.led * (run.replicas - 1) + run.followed, run.fetchers),
        ),
        **_fitted_to(
            plain,
            ("files", "files_per_segment"),
            lambda run: run.figures["open_files"] - 2 * (run.brokers - 1),
            lambda run: (1.0, run.led + run.followed),
        ),
        **_fitted_to(
            (run for run in plain if run.partitions),
            ("metadata_bytes", "metadata_bytes_per_replica"),
            lambda run: run.figures["metadata_mb"] * 1e6,
            lambda run: (run.partitions, run.partitions * run.replicas),
        ),
        **_fitted_to(
            few,
            ("start_s", "start_ms_per_replica"),
            lambda run: run.figures["restart_s"],
            lambda run: (1.0, (run.led + run.followed) / 1000),
        ),
        **_fitted_to(
            (run for run in few if "failover_s" in run.figures),
            ("failover_ms_per_partition",),
            lambda run: (run.figures["failover_s"] - DEATH_HINT_S) * 1000,
            lambda run: (run.figures["failover_partitions_count"],),
        ),
    }


def load_costs(runs: Sequence[LoadRun], idle: Mapping[str, float]) -> dict[str, float]:
    """The constants that loads show, given those of idle clusters."""
    nothing = idle["idle_broker_ms"] / 1000
    several = [run for run in runs if run.replicas > 1 and not run.readers]
    costs = _fitted_to(
        (run for run in runs if run.replicas == 1 and not run.readers),
        ("batch_us", "produced_gb_s"),
        lambda run: run.figures["leader_cores"] - nothing,
        lambda run: (run.batches / 1e6, run.gigabytes),
    )

    def rest(run: LoadRun) -> float:
        """What a leader uses beyond idling and its producers."""
        produced = run.batches * costs["batch_us"] / 1e6 + run.gigabytes * costs["produced_gb_s"]
        return run.figures["leader_cores"] - nothing - produced

    return {
        **costs,
        **_fitted_to(
            (run for run in runs if run.replicas == 1 and run.readers),
            ("read_us", "read_gb_s"),
            rest,
            lambda run: (run.figures["answered_per_s"] / 1e6, run.gigabytes * run.readers),
        ),
        **_fitted_to(
            several,
            ("fetch_answered_us", "replicated_gb_s"),
            rest,
            lambda run: (run.figures["answered_per_s"] / 1e6, run.gigabytes * (run.replicas - 1)),
        ),
        **_fitted_to(
            several,
            ("fetch_us", "followed_gb_s"),
            lambda run: run.figures["follower_cores"] - nothing,
            lambda run: (run.figures["answered_per_s"] / (run.replicas - 1) / 1e6, run.gigabytes),
        ),
        "fetch_ms": _fetch_ms(several),
        "busy_mib": _busy_mib(runs, idle),
    }


def _fetch_ms(runs: Sequence[LoadRun]) -> float:
    """From `fetches = batches / (1 + batches × time)` of each follower."""
    times = [
        (run.replicas - 1) / run.figures["answered_per_s"] - 1 / run.batches
        for run in runs
        if run.figures["answered_per_s"]
    ]
    return max(0.0, mean(times) * 1000)


def _busy_mib(runs: Sequence[LoadRun], idle: Mapping[str, float]) -> float:
    return max(run.figures["resident_mib"] for run in runs) - idle["broker_mib"]


def tier_costs(runs: Sequence[IdleRun], plain: Mapping[str, float]) -> dict[str, float]:
    """What a tier adds to an idle broker, and to each partition that it leads."""

    def without_tier(run: IdleRun) -> float:
        kib = run.led * plain["led_kib"] + run.followed * plain["followed_kib"]
        return plain["broker_mib"] + kib / _KIB_A_MIB

    return _fitted_to(
        (run for run in runs if run.tiered),
        ("tier_mib", "tiered_kib"),
        lambda run: run.figures["resident_mib"] - without_tier(run),
        lambda run: (1.0, run.led / _KIB_A_MIB),
    )


def fitted(directory: Path) -> dict[str, float]:
    """All constants that a results folder shows. Raises ResultsError if it has not all cases."""
    idle_runs, loads = read_runs(directory)
    there = {(run.name, run.tiered) for run in idle_runs} | {(run.name, False) for run in loads}
    for run in RUNS:
        if (run.name, isinstance(run, IdleRun) and run.tiered) not in there:
            raise ResultsError(
                f"{directory} has no figures of {run.name!r}; `tierlog-bench run sizing --out DIR`"
                " measures all cases."
            )
    idle_runs = [run for run in idle_runs if not is_check(run)]
    costs = idle_costs(idle_runs)
    return costs | tier_costs(idle_runs, costs) | load_costs(loads, costs)


def is_check(run: IdleRun | LoadRun) -> bool:
    """Whether no constant is fitted to the run, so that the model is held against it."""
    if isinstance(run, IdleRun):
        return run.brokers > _NODES and run.partitions < _PARTITIONS_FITTED_MIN
    return run.replicas > 1 and run.readers > 0


class Ratio(NamedTuple):
    """A figure's model ÷ measured over several cases: least, median, most."""

    metric: str
    cases: int
    least: float
    median: float
    most: float


def ratios(runs: Iterable[IdleRun | LoadRun], costs: Costs) -> list[Ratio]:
    """How good the model is, by figure."""
    by_metric: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for metric, value in run.model(costs).items():
            if run.figures.get(metric):
                by_metric[metric].append(value / run.figures[metric])
    return [
        Ratio(metric, len(each), min(each), median(each), max(each))
        for metric, each in by_metric.items()
    ]


def written(text: str, costs: Mapping[str, float]) -> str:
    """The text of costs.py with these constants as its defaults."""
    for name, value in costs.items():
        text, count = re.subn(
            rf"({name}: float = _cost\(\s*)[\d.e+-]+", rf"\g<1>{_rounded(value)}", text
        )
        assert count == 1, f"{name} is once there"
    return text


def _rounded(value: float) -> str:
    return repr(float(f"{value:.3g}"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tierlog.bench.sizing.fit", description=__doc__)
    parser.add_argument("directory", type=Path, help="a results folder of `run sizing`")
    parser.add_argument("--write", action="store_true", help="put the constants into costs.py")
    options = parser.parse_args(arguments)
    directory: Path = options.directory
    try:
        costs = fitted(directory)
    except ResultsError as error:
        parser.error(str(error))
    for name, value in costs.items():
        print(f"{name:28} {value:10.4g}   now {getattr(MEASURED, name):g}")
    idle_runs, loads = read_runs(directory)
    runs: list[IdleRun | LoadRun] = [*idle_runs, *loads]
    now = replace(MEASURED, **costs)
    for title, some in (
        ("all cases", runs),
        ("cases that were not fitted", [run for run in runs if is_check(run)]),
    ):
        print(f"\nmodel ÷ measured, {title}: least, median, most")
        for ratio in ratios(some, now):
            spread = f"{ratio.least:6.2f} {ratio.median:6.2f} {ratio.most:6.2f}"
            print(f"{ratio.metric:28} {spread}   of {ratio.cases}")
    if options.write:
        table = Path(__file__).with_name("costs.py")
        table.write_text(written(table.read_text(), costs))
        print(f"\n{table} is written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
