"""What a rolling restart and kills of leaders are judged by, and one small run of each."""

import io
import re
from pathlib import Path

import pytest

from tierlog.bench import releases
from tierlog.bench.figures import ResultsWriter, read_results
from tierlog.bench.harness.checker.acknowledged import Acknowledged, Answer
from tierlog.bench.harness.cluster_runs.cluster_load import ClientAnswers, longest_gap_s
from tierlog.bench.harness.cluster_runs.leader_failover import LeaderKill, LeaderKills
from tierlog.bench.harness.cluster_runs.rolling import Restart, Rolling
from tierlog.bench.harness.requests.probe import NotUpError
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.progress import LinesOfProgress
from tierlog.bench.runner import Runner, Settings
from tierlog.bench.scenario import Scale, Scenario
from tierlog.bench.scenarios.clusters import failover, rolling
from tierlog.bench.schedule import schedule

TOPICS = {"Java": "load-Java", "librdkafka": "load-librdkafka"}


def answered(**at: list[float]) -> Acknowledged:
    """Acknowledgements by partition: `p0=[1.0, 1.5]`."""
    return Acknowledged(
        {
            int(partition[1:]): {n: Answer(n, time) for n, time in enumerate(times)}
            for partition, times in at.items()
        }
    )


def test_a_gap_begins_with_its_window_and_ends_with_the_next_acknowledgement() -> None:
    assert longest_gap_s([1.0, 2.0, 2.5, 3.0], 1.9, 3.0) == pytest.approx(0.5)
    assert longest_gap_s([1.0, 4.0, 9.0], 2.0, 3.0) == 2.0
    assert longest_gap_s([1.0, 2.1, 9.0], 2.0, 3.0) == pytest.approx(6.9)


def test_a_partition_that_never_answers_again_is_unavailable_to_the_end_of_the_window() -> None:
    assert longest_gap_s([1.0], 2.0, 30.0) == 28.0
    assert longest_gap_s([], 2.0, 30.0) == 28.0


def test_a_restart_counts_for_the_partitions_that_the_node_led() -> None:
    led = [("load-Java", 0), ("load-Java", 1), ("load-librdkafka", 0)]
    restart = Restart(1, 10.0, 20.0, 1.0, 5.0, led)
    steady = [10.0 + each / 10 for each in range(110)]
    gap = [at for at in steady if not 12.05 < at < 12.95]
    acknowledged = {
        "Java": answered(p0=gap, p1=steady, p2=[9.0, 99.0]),
        "librdkafka": answered(p0=steady),
    }
    done = Rolling([restart], ClientAnswers(TOPICS, acknowledged))
    assert done.unavailable_s("Java") == [pytest.approx(1.0), pytest.approx(0.1)]
    assert done.worst_s("Java") == [pytest.approx(1.0)]
    assert done.worst_s("librdkafka") == [pytest.approx(0.1)]


def test_a_kill_lasts_until_the_last_partition_is_served_again() -> None:
    led = [("load-Java", 0), ("load-Java", 3)]
    kill = LeaderKill(2, 100.0, 105.0, 2.0, led)
    acknowledged = {"Java": answered(p0=[99.9, 102.4, 106.0], p1=[200.0], p3=[99.9, 108.0])}
    done = LeaderKills([kill], ClientAnswers(TOPICS, acknowledged))
    assert done.unavailable_s("Java") == [8.0]


def test_a_wheel_that_is_named_is_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "tierlog-0.0.9-py3-none-any.whl"
    monkeypatch.setenv(releases.OLD_WHEEL, str(wheel))
    with pytest.raises(NotUpError, match=r"TIERLOG_BENCH_OLD_WHEEL names .*, which is no file"):
        releases.old_wheel(tmp_path)
    wheel.touch()
    assert releases.old_wheel(tmp_path) == wheel


def test_a_directory_that_is_no_clone_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotUpError, match="is no clone of tierlog"):
        releases.built_wheel(tmp_path, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "only", "figures"),
    [
        (rolling.SCENARIO, "upgrade", {"librdkafka_unavailable_p99_s", "returning_max_s"}),
        (failover.SCENARIO, "leader and active controller, d", {"librdkafka_unavailable_max_s"}),
    ],
    ids=["rolling upgrade", "kill of a leader"],
)
def test_a_small_run_loses_nothing_and_gives_its_figures(
    scenario: Scenario, only: str, figures: set[str], tmp_path: Path
) -> None:
    results = ResultsWriter(tmp_path / "out")
    results.write_machine({})
    runner = Runner(
        results, LinesOfProgress(io.StringIO()), Settings(Scale.SMOKE, tmp_path / "scratch")
    )
    runner.run(schedule([scenario], [TierlogTarget()], Scale.SMOKE, only=re.compile(only)))
    assert runner.failures == []
    assert figures <= {figure.metric for figure in read_results(tmp_path / "out").figures}
