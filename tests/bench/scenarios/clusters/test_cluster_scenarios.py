"""The scenarios about restarts and about several nodes give every figure at a broker of ours."""

import io
import re
from pathlib import Path

import pytest

from tierlog.bench.figures import ResultsWriter, read_results
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.progress import LinesOfProgress
from tierlog.bench.runner import Runner, Settings
from tierlog.bench.scenario import Scale, Scenario
from tierlog.bench.scenarios import restarts
from tierlog.bench.scenarios.clusters import (
    cluster_up,
    cores,
    failover,
    partition_kills,
    replicated,
    sizing,
    three_nodes,
)
from tierlog.bench.schedule import schedule

pytestmark = pytest.mark.slow

SCENARIOS = [
    restarts.SCENARIO,
    failover.SCENARIO,
    partition_kills.SCENARIO,
    three_nodes.SCENARIO,
    pytest.param(cluster_up.SCENARIO, marks=pytest.mark.long),
    replicated.SCENARIO,
    cores.SCENARIO,
    pytest.param(sizing.SCENARIO, marks=pytest.mark.long),
]
ONLY = {
    "failover": re.compile("kills of the active controller"),
    "partition_kills": re.compile(r"kill\(s\)$"),
}
"""The others of `failover` are in test_rolling.py, for `make test-long`."""
SOME_FIGURES = {
    "restarts": {"first_start_cpu_s", "last_start_cpu_s", "worst_of_second_half_metadata_mb"},
    "failover": {"median_unavailable_s", "worst_unavailable_s", "acknowledged_changes"},
    "partition_kills": {"worst_at_rest_cores", "led_p50_s", "whole_p50_s", "fenced_though_alive"},
    "three_nodes": {
        "third_unfenced_s",
        "active_resident_mib",
        "standby_idle_cpu_s_per_minute",
    },
    "cluster_up": {"new_ready_s", "again_ready_s", "idle_core_percent", "all_proportional_mib"},
    "cores": {
        "produce_16_kib_mb_per_s",
        "consume_16_kib_broker_cpu_s_per_gb",
        "produce_16_kib_busiest_process_cores",
    },
    "sizing": {
        "resident_mib_model_ratio",
        "restart_s_model_ratio",
        "failover_s_model_ratio",
        "leader_cores_model_ratio",
        "follower_cores_model_ratio",
    },
    "replicated": {"mb_per_s", "broker_cpu_s_per_gb", "resident_mib", "produce_p99_ms"},
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_nodes_that_hold_give_every_figure(scenario: Scenario, tmp_path: Path) -> None:
    results = ResultsWriter(tmp_path / "out")
    results.write_machine({})
    settings = Settings(Scale.SMOKE, tmp_path / "scratch")
    runner = Runner(results, LinesOfProgress(io.StringIO()), settings)
    only = ONLY.get(scenario.name)
    runner.run(schedule([scenario], [TierlogTarget()], Scale.SMOKE, only=only))
    assert runner.failures == []
    figures = {figure.metric for figure in read_results(tmp_path / "out").figures}
    assert SOME_FIGURES[scenario.name] <= figures
