"""A results folder gives back what was written into it, or says in a sentence what is wrong."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tierlog.bench.figures import (
    Failure,
    Figure,
    HistogramKey,
    MetricKey,
    ResultsError,
    ResultsWriter,
    RunKey,
    median_of,
    read_results,
    values_of,
)
from tierlog.bench.harness.loads.latencies import LatencyRecorder

KEY = RunKey("latency", "5 MB/s, acks=all", "tierlog", True, 1)


def figure(value: float, run: int = 1, metric: str = "p99_ms") -> Figure:
    return Figure(*KEY[:4], metric=metric, value=value, run=run)


def one_run(directory: Path) -> ResultsWriter:
    writer = ResultsWriter(directory)
    writer.write_machine({"cores": 2})
    latencies = LatencyRecorder()
    latencies.record(3.0, 0.5)
    writer.write_run(KEY, [figure(1.5), figure(3, metric="mb_per_s")], {"produce": latencies})
    return writer


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    writer = one_run(tmp_path / "out")
    failure = Failure(*KEY[:4], run=0, reason="The broker died: “no space left”.")
    writer.write_failure(failure, log="its last words")
    results = read_results(tmp_path / "out")
    assert results.machine == {"cores": 2}
    assert results.figures == (figure(1.5), figure(3, metric="mb_per_s"))
    assert results.failures == (failure,)
    assert list(results.histograms) == [HistogramKey(*KEY, "produce")]
    (log,) = (tmp_path / "out" / "logs").iterdir()
    assert log.read_text() == "its last words"


def test_a_line_of_figures_has_exactly_these_keys(tmp_path: Path) -> None:
    one_run(tmp_path)
    line = json.loads((tmp_path / "figures.jsonl").read_text().splitlines()[0])
    assert line == {
        "scenario": "latency",
        "case": "5 MB/s, acks=all",
        "target": "tierlog",
        "tiered": True,
        "metric": "p99_ms",
        "value": 1.5,
        "run": 1,
    }


def test_cases_that_look_alike_in_a_file_name_keep_their_files(tmp_path: Path) -> None:
    writer = ResultsWriter(tmp_path)
    keys = [RunKey("s", case, "t", False, 1) for case in ("1 KiB", "1/KiB", "1:KiB")]
    for key in keys:
        writer.write_run(key, [], {"": LatencyRecorder()})
    writer.write_machine({})
    assert set(read_results(tmp_path).histograms) == {HistogramKey(*key, "") for key in keys}


def test_results_are_never_mixed_with_earlier_ones(tmp_path: Path) -> None:
    one_run(tmp_path)
    with pytest.raises(ResultsError, match="choose another --out"):
        ResultsWriter(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match="cannot hold results"):
        ResultsWriter(tmp_path / "file" / "out")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "line 3 of .*figures.jsonl is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"scenario": "s"}', "lacks 'case'"),
        ("", "is not JSON"),
    ],
)
def test_a_line_that_is_no_figure_is_named(tmp_path: Path, line: str, sentence: str) -> None:
    one_run(tmp_path)
    with (tmp_path / "figures.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ResultsError, match=sentence):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"unit": "s"}, "has an unknown key 'unit'"),
        ({"value": "1"}, "says '1' for 'value'"),
        ({"value": True}, "says True for 'value'"),
        ({"run": 1.5}, "says 1.5 for 'run'"),
        ({"tiered": 0}, "says 0 for 'tiered'"),
        ({"case": None}, "says None for 'case'"),
    ],
)
def test_a_figure_of_another_form_is_refused(
    tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    one_run(tmp_path)
    path = tmp_path / "figures.jsonl"
    fields = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({**fields, **change}) + "\n")
    with pytest.raises(ResultsError, match=sentence):
        read_results(tmp_path)


def test_a_torn_last_line_is_reported(tmp_path: Path) -> None:
    one_run(tmp_path)
    path = tmp_path / "figures.jsonl"
    path.write_text(path.read_text()[:-5])
    with pytest.raises(ResultsError, match="is torn"):
        read_results(tmp_path)


def test_what_is_no_folder_of_results_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="is not a folder"):
        read_results(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match=r"holds no figures\.jsonl"):
        read_results(tmp_path)


def test_a_histogram_that_does_not_say_whose_it_is_is_reported(tmp_path: Path) -> None:
    one_run(tmp_path)
    (tmp_path / "histograms" / "stray.hlog").write_text('"StartTimestamp"\n')
    with pytest.raises(ResultsError, match="does not say which run"):
        read_results(tmp_path)


def test_medians_are_over_the_runs_of_one_metric() -> None:
    figures = [figure(value, run) for run, value in enumerate((9.0, 1.0, 2.0), 1)]
    figures.append(figure(50, metric="mb_per_s"))
    medians = median_of(figures)
    assert medians[MetricKey(*KEY[:4], "p99_ms")] == 2
    assert medians[MetricKey(*KEY[:4], "mb_per_s")] == 50
    assert values_of(figures)[MetricKey(*KEY[:4], "p99_ms")] == [9, 1, 2]


@given(st.text(min_size=1), st.floats(allow_nan=False, allow_infinity=False))
def test_any_case_and_any_number_survives(
    tmp_path_factory: pytest.TempPathFactory, case: str, value: float
) -> None:
    directory = tmp_path_factory.mktemp("out")
    writer = ResultsWriter(directory)
    writer.write_machine({})
    stored = Figure("s", case, "t", False, "x_s", value, 1)
    writer.write_run(RunKey("s", case, "t", False, 1), [stored], {"": LatencyRecorder()})
    results = read_results(directory)
    assert results.figures == (stored,)
    assert list(results.histograms) == [HistogramKey("s", case, "t", False, 1, "")]
