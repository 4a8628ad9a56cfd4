"""What an open status page costs: the scenario gives every figure, and fails without an answer."""

import io
from pathlib import Path

import pytest

from tierlog.bench.figures import ResultsWriter, RunKey, read_results
from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.requests.probe import free_port
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.progress import LinesOfProgress
from tierlog.bench.recorder import Recorder
from tierlog.bench.runner import Runner, Settings
from tierlog.bench.scenario import Scale
from tierlog.bench.scenarios.status_page import SCENARIO, OpenPage
from tierlog.bench.schedule import schedule
from tierlog.tests.bench.fake_target import FakeTarget

FIGURES = {
    "alone_p99_ms",
    "with_page_p99_ms",
    "p99_change_percent",
    "overview_p50_ms",
    "topics_p50_ms",
}


@pytest.mark.long
def test_every_figure_is_given(tmp_path: Path) -> None:
    results = ResultsWriter(tmp_path / "out")
    results.write_machine({})
    settings = Settings(Scale.SMOKE, tmp_path / "scratch")
    runner = Runner(results, LinesOfProgress(io.StringIO()), settings)
    runner.run(schedule([SCENARIO], [TierlogTarget()], Scale.SMOKE))
    assert runner.failures == []
    assert {figure.metric for figure in read_results(tmp_path / "out").figures} >= FIGURES


@pytest.mark.parametrize("scale", Scale)
def test_it_is_for_tierlog_alone(scale: Scale) -> None:
    (case,) = SCENARIO.cases(scale)
    assert SCENARIO.refuses(case, FakeTarget("kafka")) == "it has no status page of its own"
    assert SCENARIO.refuses(case, TierlogTarget()) is None


def test_a_page_that_is_not_answered_gives_no_figure() -> None:
    with OpenPage(free_port()) as page:
        pass
    with pytest.raises(MeasurementError, match="/api/v1/overview was not answered"):
        page.record_into(Recorder(RunKey(SCENARIO.name, "case", "tierlog", False, 1)))
