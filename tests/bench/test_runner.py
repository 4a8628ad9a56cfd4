"""Who takes turns with whom, and which runs count."""

import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tierlog.bench.figures import Results, ResultsWriter, read_results
from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.targets.target import RunningTarget
from tierlog.bench.progress import LinesOfProgress
from tierlog.bench.recorder import Recorder
from tierlog.bench.runner import Runner, Settings
from tierlog.bench.scenario import Scale
from tierlog.bench.schedule import NothingChosenError, schedule
from tierlog.tests.bench.fake_scenario import FakeScenario, dies, one_figure
from tierlog.tests.bench.fake_target import FakeRunning, FakeTarget

WITHIN = 0.002


def run(
    tmp_path: Path, scenario: FakeScenario, targets: Sequence[FakeTarget], tier: str | None = None
) -> Results:
    writer = ResultsWriter(tmp_path / "out")
    writer.write_machine({})
    settings = Settings(Scale.SMOKE, tmp_path / "scratch", tier)
    runner = Runner(writer, LinesOfProgress(io.StringIO()), settings)
    try:
        runner.run(schedule([scenario], targets, Scale.SMOKE))
    finally:
        assert not any(each.alive for target in targets for each in target.prepared)
        assert all(each.discarded for target in targets for each in target.prepared)
    results = read_results(tmp_path / "out")
    assert tuple(runner.failures) == results.failures
    assert runner.counted == len({(f.case, f.target, f.tiered, f.run) for f in results.figures})
    return results


# -- Turns --------------------------------------------------------------------------------------


def test_each_round_goes_through_all_before_the_next_begins(tmp_path: Path) -> None:
    scenario = FakeScenario(names=("a", "b"), kinds=(False, True), warm_up=1, repeats=2)
    results = run(tmp_path, scenario, [FakeTarget("x"), FakeTarget("y")])
    one_round = [
        (name, tiered, target)
        for name in ("a", "b")
        for target in ("x", "y")
        for tiered in (False, True)
    ]
    assert [each[:4] for each in scenario.runs] == [
        (*turn, number) for number in (0, 1, 2) for turn in one_round
    ]
    assert len({each[4] for each in scenario.runs}) == 2  # two brokers, all the time
    assert {figure.run for figure in results.figures} == {1, 2}  # warming up does not count


def test_a_case_with_fresh_brokers_is_measured_to_its_end_before_the_next(tmp_path: Path) -> None:
    scenario = FakeScenario(names=("a", "b"), kinds=(False, True), repeats=2, fresh_broker="case")
    target = FakeTarget()
    run(tmp_path, scenario, [target])
    assert [(name, number) for name, _, _, number, _ in scenario.runs] == [
        *[("a", 1)] * 2,
        *[("a", 2)] * 2,
        *[("b", 1)] * 2,
        *[("b", 2)] * 2,
    ]
    assert len(target.prepared) == 2


def test_a_fresh_broker_for_every_run_is_handed_over_not_started(tmp_path: Path) -> None:
    scenario = FakeScenario(repeats=3, fresh_broker="run", kinds=(False, True))
    target = FakeTarget()
    run(tmp_path, scenario, [target])
    assert [each.starts for each in target.prepared] == [1] * 6
    assert [each.tier is not None for each in target.prepared] == [False, True] * 3


def test_only_brokers_of_tiered_cases_have_a_tier(tmp_path: Path) -> None:
    plain, tiered = FakeTarget(), FakeTarget()
    run(tmp_path / "1", FakeScenario(), [plain])
    run(tmp_path / "2", FakeScenario(kinds=(False, True)), [tiered])
    assert [each.tier for each in plain.prepared] == [None]
    assert [each.tier for each in tiered.prepared] == [
        (tiered.prepared[0].directory / "remote").as_uri()
    ]


def test_brokers_do_not_share_a_place_in_the_users_tier(tmp_path: Path) -> None:
    target = FakeTarget()
    scenario = FakeScenario(kinds=(True,), repeats=2, fresh_broker="run")
    run(tmp_path, scenario, [target], tier="s3://bucket/bench/")
    assert [each.tier for each in target.prepared] == [
        "s3://bucket/bench/scratch/001-fake",
        "s3://bucket/bench/scratch/002-fake",
    ]


# -- What is left out ---------------------------------------------------------------------------


def test_what_cannot_be_measured_is_reported_and_the_rest_is_measured() -> None:
    scenario = FakeScenario(
        names=("a", "b"), kinds=(False, True), refused={("b", "y"): "it has no b"}
    )
    targets = [FakeTarget("x"), FakeTarget("y", capabilities=frozenset({"start"}))]
    (part,) = schedule([scenario], targets, Scale.SMOKE)
    assert [(each.case, each.target, each.tiered, each.reason) for each in part.refused] == [
        ("a", "y", True, "y has no remote tier"),
        ("b", "y", False, "it has no b"),
        ("b", "y", True, "y has no remote tier"),
    ]
    assert part.runs == 5
    assert part.expected_seconds == 10
    (longer,) = schedule([scenario], targets, Scale.SMOKE, repeats=part.plan.repeats + 2)
    assert longer.runs_a_case == part.runs_a_case + 2
    assert longer.seconds_a_run == pytest.approx(part.seconds_a_run)


def test_only_the_cases_that_match_are_measured_and_scenarios_without_one_are_left_out() -> None:
    java = FakeScenario(names=("consume Java, 1 KiB", "consume Java, 100 B", "produce Java, 100 B"))
    other = FakeScenario(names=("10 KiB",))
    only = re.compile("consume.*100 B|1 KiB$")
    (part,) = schedule([java, other], [FakeTarget()], Scale.SMOKE, only=only)
    assert [case.name for case in part.accepted] == ["consume Java, 1 KiB", "consume Java, 100 B"]
    assert part.expected_seconds == 4
    with pytest.raises(NothingChosenError, match=r"No case matches 'Go'; .*'10 KiB', and more"):
        schedule([java, other], [FakeTarget()], Scale.SMOKE, only=re.compile("Go"))


def test_a_broker_elsewhere_has_no_scenarios_that_start_it() -> None:
    elsewhere = FakeTarget("there:9092", capabilities=frozenset({"tier"}))
    (part,) = schedule([FakeScenario(fresh_broker="run")], [elsewhere], Scale.SMOKE)
    assert [each.reason for each in part.refused] == ["there:9092 is not started by the harness"]
    assert part.groups() == []


# -- What counts --------------------------------------------------------------------------------


def test_known_latencies_come_out_as_the_known_percentiles(tmp_path: Path) -> None:
    def measure(_target: RunningTarget, recorder: Recorder) -> None:
        for number in range(1, 10_001):
            recorder.histogram().record(number / 10, number / 1000)

    results = run(tmp_path, FakeScenario(measure, repeats=3), [FakeTarget()])
    expected = {"p50_ms": 500, "p95_ms": 950, "p99_ms": 990, "p999_ms": 999, "mean_ms": 500}
    for metric, value in {**expected, "max_ms": 1000}.items():
        found = [figure.value for figure in results.figures if figure.metric == metric]
        assert found == [pytest.approx(value, WITHIN)] * 3
    assert sorted(key.run for key in results.histograms) == [1, 2, 3]


def test_a_run_in_which_the_client_dies_has_no_figure(tmp_path: Path) -> None:
    def measure(_target: RunningTarget, recorder: Recorder) -> None:
        recorder.figure("mb_per_s", 100)
        recorder.histogram().record(1, 0)
        if recorder.key.run == 2:
            raise MeasurementError("the client ended with 3 of 5 records acknowledged")

    results = run(tmp_path, FakeScenario(measure, repeats=3), [FakeTarget()])
    assert {figure.run for figure in results.figures} == {1, 3}
    assert {key.run for key in results.histograms} == {1, 3}
    (failure,) = results.failures
    assert failure.run == 2
    assert failure.reason == "the client ended with 3 of 5 records acknowledged"
    (log,) = (tmp_path / "out" / "logs").iterdir()
    assert log.read_text() == (
        "the client ended with 3 of 5 records acknowledged\n\nlast words of fake"
    )


def test_a_broker_that_has_seen_a_run_fail_is_replaced_at_once(tmp_path: Path) -> None:
    """What the run left behind, a topic say, would be in the way of the next."""

    def measure(target: RunningTarget, recorder: Recorder) -> None:
        assert isinstance(target, FakeRunning)
        one_figure(target, recorder)
        if recorder.key.run == 1:
            raise MeasurementError("it left a topic")
        assert not fake.prepared[0].alive

    fake = FakeTarget()
    results = run(tmp_path, FakeScenario(measure, warm_up=0, repeats=2), [fake])
    assert len(results.failures) == 1
    assert [each.starts for each in fake.prepared] == [1, 1]
    assert {each.run for each in results.figures} == {2}


def test_a_run_whose_broker_dies_has_no_figure_and_the_next_meets_a_new_one(
    tmp_path: Path,
) -> None:
    def measure(target: RunningTarget, recorder: Recorder) -> None:
        recorder.figure("mb_per_s", 100)
        if (recorder.key.run, target.name) == (2, "x"):
            dies(target)

    scenario = FakeScenario(measure, warm_up=1, repeats=3)
    x, y = FakeTarget("x"), FakeTarget("y")
    results = run(tmp_path, scenario, [x, y])
    assert {(each.target, each.run) for each in results.figures} == {
        ("x", 1),
        ("x", 3),
        *(("y", number) for number in (1, 2, 3)),
    }
    assert [(each.target, each.run, each.reason) for each in results.failures] == [
        ("x", 2, "The broker died.")
    ]
    first, second = x.prepared
    # The new one is warmed up before it counts.
    turns = [(number, folder) for _, _, name, number, folder in scenario.runs if name == "x"]
    assert turns == [
        *((number, first.directory) for number in (0, 1, 2)),
        *((number, second.directory) for number in (0, 3)),
    ]
    assert len(y.prepared) == 1


def test_a_broker_that_was_started_anew_meanwhile_does_not_count(tmp_path: Path) -> None:
    def measure(target: RunningTarget, recorder: Recorder) -> None:
        recorder.figure("mb_per_s", 100)
        target.kill()
        target.start()

    results = run(tmp_path, FakeScenario(measure), [FakeTarget()])
    assert results.figures == ()
    assert results.failures[0].reason == "The broker was restarted meanwhile."


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (MeasurementError("client failed:\n\n  File x\nLost: 3"), "client failed: … Lost: 3"),
        (TimeoutError(), "TimeoutError: "),
    ],
)
def test_whatever_goes_wrong_in_a_run_is_one_line_of_failure(
    tmp_path: Path, error: Exception, reason: str
) -> None:
    def measure(_target: RunningTarget, _recorder: Recorder) -> None:
        raise error

    results = run(tmp_path, FakeScenario(measure), [FakeTarget()])
    assert [each.reason for each in results.failures] == [reason]


def test_a_failure_while_warming_up_is_a_failure(tmp_path: Path) -> None:
    def measure(target: RunningTarget, recorder: Recorder) -> None:
        if len(scenario.runs) == 1:
            raise MeasurementError("cold feet")
        one_figure(target, recorder)

    scenario = FakeScenario(measure, warm_up=1, repeats=2)
    results = run(tmp_path, scenario, [FakeTarget()])
    assert [(each.run, each.reason) for each in results.failures] == [(0, "cold feet")]
    assert [number for _, _, _, number, _ in scenario.runs] == [0, 0, 1, 2]
    assert {each.run for each in results.figures} == {1, 2}


def test_what_fails_twice_is_not_tried_a_third_time(tmp_path: Path) -> None:
    def measure(target: RunningTarget, recorder: Recorder) -> None:
        if target.name == "x":
            raise MeasurementError("no")
        one_figure(target, recorder)

    scenario = FakeScenario(measure, repeats=5)
    results = run(tmp_path, scenario, [FakeTarget("x"), FakeTarget("y")])
    assert [each.target for each in results.failures] == ["x", "x"]
    assert len(scenario.runs) == 7


def test_a_broker_that_does_not_start_fails_its_cases_and_nobody_elses(tmp_path: Path) -> None:
    scenario = FakeScenario(names=("a", "b"), repeats=2)
    results = run(tmp_path, scenario, [FakeTarget("x", stillborn=True), FakeTarget("y")])
    assert [(each.target, each.case) for each in results.failures] == [("x", "a"), ("x", "b")]
    assert "did not start" in results.failures[0].reason
    assert {each.target for each in results.figures} == {"y"}
    assert len(results.figures) == 4


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_every_broker_and_keeps_what_was_measured(
    tmp_path: Path, interrupt: type[BaseException]
) -> None:
    def measure(target: RunningTarget, recorder: Recorder) -> None:
        one_figure(target, recorder)
        if recorder.key.run == 2 and target.name == "y":
            raise interrupt

    targets = [FakeTarget("x"), FakeTarget("y")]
    with pytest.raises(interrupt):
        run(tmp_path, FakeScenario(measure, repeats=3), targets)
    results = read_results(tmp_path / "out")
    assert [(each.target, each.run) for each in results.figures] == [
        ("x", 1),
        ("y", 1),
        ("x", 2),
    ]
    assert results.failures == ()
