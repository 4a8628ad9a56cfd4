"""Constants are had back from the figures of clusters that the model itself made up."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.bench.figures import ResultsWriter, RunKey
from tierlog.bench.recorder import Recorder
from tierlog.bench.scenario import Case, Scale
from tierlog.bench.scenarios.clusters.sizing import SCENARIO, IdleCluster, LoadedCluster
from tierlog.bench.sizing import costs as costs_module, fit
from tierlog.bench.sizing.costs import MEASURED, Costs
from tierlog.bench.sizing.model import Share, needs_of
from tierlog.bench.sizing.runs import IdleRun, LoadRun, read_runs

TRUTH = replace(MEASURED, broker_mib=50.0, led_kib=9.0, batch_us=77.0, fetch_ms=3.0, busy_mib=0.0)
LOADED_TRUTH = replace(TRUTH, idle_replica_ms=0.0, idle_fetcher_ms=0.0)
NOT_FROM_HERE = {"connection_kib", "copied_gb_s", "busy_mib"}


def idle_figures(run: IdleRun) -> dict[str, float]:
    """What a mean node would show if the model were right; its parts are no whole numbers."""
    peers = run.fetchers / 2
    share = Share(
        led=run.led,
        followed=run.followed,
        elsewhere=run.elsewhere,
        followers=peers,
        copies=run.replicas - 1,
        leaders=peers,
        is_tiered=run.tiered,
    )
    needs = needs_of(share, TRUTH)
    files = TRUTH.files + (run.led + run.followed) * TRUTH.files_per_segment
    return run.model(TRUTH) | {
        "resident_mib": needs.memory_mib,
        "idle_cpu_s_per_minute": needs.idle_cores * 60,
        "open_files": files + 2 * (run.brokers - 1),
        "restart_s": needs.start_s,
        "failover_partitions_count": float(-(-run.partitions // run.brokers)),
    }


def load_figures(run: LoadRun) -> dict[str, float]:
    """What a leader and its followers would use, where nothing is used for replicas that idle."""
    measured = {
        "mb_per_s": float(run.megabytes),
        "batches_per_s": 1000.0 / run.linger_ms,
        "resident_mib": TRUTH.broker_mib,
        "answered_per_s": 0.0,
    }
    return measured | replace(run, figures=measured).model(LOADED_TRUTH)


def figures_of(case: Case) -> dict[str, float]:
    if isinstance(case, IdleCluster):
        return idle_figures(case.size)
    assert isinstance(case, LoadedCluster)
    return load_figures(case.load)


def write_figures(directory: Path) -> None:
    """A results folder of all cases."""
    writer = ResultsWriter(directory)
    writer.write_machine({})
    for case in SCENARIO.cases(Scale.SMALL):
        key = RunKey(SCENARIO.name, case.name, "tierlog", case.tiered, 1)
        recorder = Recorder(key)
        for metric, value in figures_of(case).items():
            recorder.figure(metric, value)
        writer.write_run(key, recorder.figures(), {})


def test_the_constants_come_back(tmp_path: Path) -> None:
    write_figures(tmp_path)
    costs = fit.fitted(tmp_path)
    for name in set(Costs.__slots__) - NOT_FROM_HERE:
        assert costs[name] == pytest.approx(getattr(TRUTH, name), rel=1e-3), name


def test_the_model_is_right_where_it_made_the_figures(tmp_path: Path) -> None:
    write_figures(tmp_path)
    idle, loads = read_runs(tmp_path)
    assert len(idle) + len(loads) == len(SCENARIO.cases(Scale.SMALL))
    right = [*fit.ratios(idle, TRUTH), *fit.ratios(loads, LOADED_TRUTH)]
    assert {ratio.metric for ratio in right} >= {"resident_mib", "leader_cores", "failover_s"}
    for ratio in right:
        assert ratio.least == pytest.approx(1, abs=0.01), ratio
        assert ratio.most == pytest.approx(1, abs=0.01), ratio
    dear = fit.ratios(loads, replace(TRUTH, batch_us=10 * TRUTH.batch_us))
    assert max(ratio.most for ratio in dear) > 1.5


def test_cases_of_both_kinds_are_left_for_the_check() -> None:
    cases = SCENARIO.cases(Scale.SMALL)
    checks = [
        case.name
        for case in cases
        if isinstance(case, IdleCluster | LoadedCluster)
        and fit.is_check(case.size if isinstance(case, IdleCluster) else case.load)
    ]
    assert "10 brokers, 100 partitions, RF 3, idle" in checks
    assert "5 MB/s, linger 2 ms, RF 3, 1 reader" in checks
    assert len(checks) < len(cases) / 2


def test_constants_are_written_into_the_table() -> None:
    text = Path(costs_module.__file__).read_text()
    again = fit.written(text, {"broker_mib": 41.2345, "batch_us": 0.0})
    assert re.search(r'broker_mib: float = _cost\(\s*41\.2,\s+"MiB"', again)
    assert re.search(r'batch_us: float = _cost\(\s*0\.0,\s+"µs"', again)
    assert fit.written(again, {"broker_mib": 41.2345}) == again


def test_no_cost_comes_out_below_zero() -> None:
    """Noise must not make a second partition cheaper than the first."""
    equations = [fit.Equation(10.0, (1.0, 1.0)), fit.Equation(9.9, (1.0, 100.0))]
    costs = fit.solve(("each", "more"), equations)
    assert costs["more"] == 0.0
    assert costs["each"] == pytest.approx(9.95, rel=0.01)


def test_a_folder_without_all_cases_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = ResultsWriter(tmp_path)
    writer.write_machine({})
    with pytest.raises(SystemExit):
        fit.main([str(tmp_path)])
    assert "has no figures of '3 brokers, 0 partitions, RF 3, idle'" in capsys.readouterr().err
