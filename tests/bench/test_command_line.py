"""What a newcomer types, what is answered, and how it ends."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.bench.__main__ import install_command, main
from tierlog.bench.command_line import build_parser, default_targets
from tierlog.bench.figures import ResultsError, read_results
from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.targets.named import target_named
from tierlog.bench.harness.targets.target import RunningTarget, TargetUnavailableError
from tierlog.bench.recorder import Recorder
from tierlog.bench.scenario import Scale
from tierlog.bench.scenarios.catalogue import ALL, ON_REQUEST, SCENARIOS, scenarios_named
from tierlog.bench.schedule import schedule
from tierlog.bench.session import Order, run
from tierlog.tests.bench.fake_scenario import FakeScenario
from tierlog.tests.bench.fake_target import FakeTarget
from tierlog.tests.house_rules import ROOT
from tierlog.tests.waiting import wait_until

TIERLOG_BENCH = str(Path(sys.executable).with_name("tierlog-bench"))


def processes_with(text: str) -> list[str]:
    """Command lines of living processes in which the text stands."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


# -- Words --------------------------------------------------------------------------------------


def test_help_shows_a_newcomer_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["run", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
    words = " ".join(capsys.readouterr().out.split())
    for said in ("examples:", "run --scale smoke", "HOST:PORT", "s3://bucket", "Default:"):
        assert said in words


def test_every_scenario_is_listed_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--scale", "smoke"]) == 0
    said = capsys.readouterr().out
    for scenario in ALL:
        assert re.search(rf"^{scenario.name} +{re.escape(scenario.summary)}$", said, re.MULTILINE)
    assert "`run` at scale smoke, tierlog and kafka: about" in said


def test_the_page_lists_every_scenario_that_runs_only_if_named() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    listed = page.partition("A scenario that takes long")[2].partition(" runs only when")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == {scenario.name for scenario in ON_REQUEST}


@pytest.mark.parametrize("name", [scenario.name for scenario in ON_REQUEST])
def test_the_page_says_how_each_of_them_is_run(name: str) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert re.search(rf"^    tierlog-bench run (?:\w+ )*{name}\b", page, re.MULTILINE)


@pytest.mark.parametrize("scale", list(Scale))
def test_every_scenario_has_cases_of_its_own_and_a_plan(scale: Scale) -> None:
    assert len({scenario.name for scenario in ALL}) == len(ALL)
    for scenario in ALL:
        cases = scenario.cases(scale)
        assert len(set(cases)) == len(cases) > 0, scenario.name
        plan = scenario.plan(scale)
        assert plan.repeats >= 1, scenario.name
        assert plan.expected_seconds > 0, scenario.name


@pytest.mark.parametrize(("scale", "minutes"), [(Scale.SMALL, 20), (Scale.FULL, 125)])
def test_the_plans_keep_to_the_time_that_is_promised(scale: Scale, minutes: int) -> None:
    """What they plan, not what a machine needs: docs/benchmarks.md and help say these times."""
    targets = [target_named(name, {}) for name in default_targets(scale)]
    parts = schedule(SCENARIOS, targets, scale)
    assert sum(part.expected_seconds for part in parts) <= 60 * minutes


def test_scenarios_come_in_the_catalogues_order() -> None:
    first, last = SCENARIOS[0], SCENARIOS[-1]
    assert scenarios_named([last.name.replace("_", "-"), first.name]) == [first, last]
    assert scenarios_named([]) == list(SCENARIOS)
    for scenario in ON_REQUEST:
        assert scenarios_named([scenario.name]) == [scenario]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "startp"], "There is no scenario 'startp'; did you mean startup?"),
        (["run", "xyz"], "`tierlog-bench list` shows them all."),
        (
            ["run", "startup", "--target=tierlog", "--only=Java"],
            "No case matches 'Java'; there are",
        ),
        (["run", "--target", "kafak"], "There is no target 'kafak'; did you mean kafka?"),
        (["run", "--target", "redis"], "it is one of tierlog, kafka, tansu, HOST:PORT."),
        (["run", "--target", "127.0.0.1:1"], "No Kafka broker answers at 127.0.0.1:1"),
        (["run", "--tier-option", "key", "--tier", "s3://b"], "'key' is not NAME=VALUE."),
        (["run", "--tier-option", "key=x"], "there is no --tier"),
        (["run", "--tier", "/var/tier"], "needs a URL with a protocol"),
        (["report", "/nowhere"], "/nowhere is not a folder"),
        (["compare", "/nowhere", "/nowhere"], "/nowhere is not a folder"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence_and_starts_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    out = ["--out", str(tmp_path / "out")] if arguments[0] == "run" else []
    assert main([*arguments, *out]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("repeats", ["0", "-1", "many", "1001"])
def test_repeats_are_a_number_of_runs(capsys: pytest.CaptureFixture[str], repeats: str) -> None:
    with pytest.raises(SystemExit):
        main(["run", "startup", f"--repeats={repeats}"])
    assert f"{repeats!r} is not a number from 1 to 1000." in capsys.readouterr().err


def test_repeats_are_as_many_as_are_asked_for_or_as_are_planned() -> None:
    assert build_parser().parse_args(["run", "--repeats=7"]).repeats == 7
    assert build_parser().parse_args(["run"]).repeats is None


def test_only_is_a_regular_expression(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "startup", "--only=(Java"])
    assert "'(Java' is not a regular expression: missing )" in capsys.readouterr().err


def test_a_package_that_is_missing_is_named_with_what_brings_it(
    tmp_path: Path,
) -> None:
    """Where only `pip install tierlog` was run, the help works, and `run` says what it needs."""
    for name in ("confluent_kafka", "hdrh", "jinja2", "matplotlib", "rich"):
        (tmp_path / f"{name}.py").write_text(
            f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n"
        )
    command = [sys.executable, "-m", "tierlog.bench"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    answers = [
        subprocess.run(
            [*command, *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for arguments in (["list"], ["run", "--scale", "smoke"])
    ]
    assert answers[0].returncode == 0, answers[0].stderr
    assert answers[1].returncode == 2
    assert "-m pip install -e " in answers[1].stderr


@pytest.mark.parametrize(
    ("has_pip", "start"),
    [
        (True, ["/a tree/bin/python", "-m", "pip", "install"]),
        (False, ["uv", "pip", "install", "--python", "/a tree/bin/python"]),
    ],
)
def test_the_command_that_installs_the_extra_runs_as_it_is_printed(
    has_pip: bool, start: list[str]
) -> None:
    """At a path with a space; and where there is no pip, as in what `uv tool install` makes."""
    words = shlex.split(install_command("/a tree/bin/python", has_pip=has_pip))
    assert words == [*start, "-e", f"{ROOT}[bench]"]


# -- A session ----------------------------------------------------------------------------------


def fails_once(_target: RunningTarget, recorder: Recorder) -> None:
    if recorder.key.run == 2:
        raise MeasurementError("a record was lost")
    recorder.figure("mb_per_s", 100)


def test_the_exit_code_tells_whether_every_run_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [FakeTarget()]
    order = Order([FakeScenario(repeats=2)], targets, Scale.SMOKE, out=tmp_path / "good")
    assert run(order) == 0
    order = Order([FakeScenario(fails_once, repeats=3)], targets, Scale.SMOKE, out=tmp_path / "bad")
    assert run(order) == 1
    said = capsys.readouterr()
    assert "1 run failed, in no figure" in said.err
    assert "a record was lost" in said.err
    assert {figure.run for figure in read_results(tmp_path / "bad").figures} == {1, 3}


def test_a_run_that_measures_nothing_is_no_success(tmp_path: Path) -> None:
    nothing = FakeScenario(refused={("only", "fake"): "it cannot"})
    order = Order([nothing], [FakeTarget()], Scale.SMOKE, out=tmp_path / "out")
    assert run(order) == 1


def test_time_and_place_are_printed_before_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = FakeScenario(
        names=("a", "b"), repeats=2, refused={("b", "y"): "y has never heard of b"}
    )
    targets = [FakeTarget("x"), FakeTarget("y")]
    run(Order([scenario], targets, Scale.SMOKE, out=tmp_path / "out"))
    lines = capsys.readouterr().err.splitlines()
    assert "left out: fake-scenario (1 case): y has never heard of b" in lines
    assert f"1 scenario, 6 runs at x, y: about 6 s; results in {tmp_path / 'out'}" in lines
    assert sum(line.startswith("[") for line in lines) == 6


def test_the_machine_and_the_order_stand_beside_the_figures(tmp_path: Path) -> None:
    scenario = FakeScenario(refused={("only", "y"): "never"})
    order = Order(
        [scenario],
        [FakeTarget("x"), FakeTarget("y")],
        Scale.SMOKE,
        tier="s3://me:secret@bucket/place",
        out=tmp_path / "out",
        only=re.compile("^on"),
    )
    run(order)
    text = (tmp_path / "out" / "machine.json").read_text()
    facts = json.loads(text)
    assert facts["machine"].keys() >= {"cpu", "cores", "memory_gib", "kernel", "system"}
    assert facts["versions"].keys() >= {"python", "librdkafka", "x", "y"}
    assert facts["options"]["scale"] == "smoke"
    assert facts["options"]["only"] == "^on"
    assert facts["refused"] == [
        {
            "scenario": "fake-scenario",
            "case": "only",
            "target": "y",
            "tiered": False,
            "reason": "never",
        }
    ]
    assert facts["started"] <= facts["ended"]
    assert facts["interrupted"] is False
    assert "secret" not in text


def test_a_target_that_is_not_to_be_had_stops_all_before_anything_is_started(
    tmp_path: Path,
) -> None:
    class Missing(FakeTarget):
        def check(self) -> None:
            raise TargetUnavailableError("it needs java; apt-get install it")

    there = FakeTarget("x")
    order = Order([FakeScenario()], [there, Missing("y")], Scale.SMOKE, out=tmp_path / "out")
    with pytest.raises(TargetUnavailableError, match="target y: it needs java"):
        run(order)
    assert there.prepared == []
    assert not (tmp_path / "out").exists()


def test_earlier_results_are_left_alone(tmp_path: Path) -> None:
    order = Order([FakeScenario()], [FakeTarget()], Scale.SMOKE, out=tmp_path / "out")
    assert run(order) == 0
    before = (tmp_path / "out" / "figures.jsonl").read_bytes()
    with pytest.raises(ResultsError, match="choose another --out"):
        run(order)
    assert (tmp_path / "out" / "figures.jsonl").read_bytes() == before


# -- The real thing -----------------------------------------------------------------------------


def ordered(tmp_path: Path, scale: str) -> list[str]:
    where = ["--out", str(tmp_path / "out"), "--scratch", str(tmp_path / "scratch")]
    return [TIERLOG_BENCH, "run", "startup", "--scale", scale, "--target", "tierlog", *where]


@pytest.mark.slow
def test_a_smoke_run_leaves_figures_and_a_report(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    answer = subprocess.run(
        [*ordered(tmp_path, "smoke"), "--tier", tier.as_uri()],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "start_cpu_s" in answer.stdout
    results = read_results(tmp_path / "out")
    assert {(figure.metric, figure.tiered) for figure in results.figures} == {
        (metric, tiered)
        for metric in ("start_s", "start_cpu_s", "resident_mib")
        for tiered in (False, True)
    }
    assert all(figure.value > 0 for figure in results.figures)
    assert results.failures == ()
    for name in ("report.html", "report.md"):
        assert (tmp_path / "out" / name).stat().st_size > 0
    assert list((tmp_path / "scratch").iterdir()) == []
    assert not tier.exists() or list(tier.iterdir()) == []
    assert processes_with(str(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_stopped_ends_its_brokers_and_keeps_its_figures(
    tmp_path: Path, number: signal.Signals
) -> None:
    figures, scratch = tmp_path / "out" / "figures.jsonl", tmp_path / "scratch"
    # Whoever runs the tests may ignore the signal, as nohup does, and a child would inherit that.
    ours = signal.signal(number, signal.SIG_DFL)
    try:
        process = subprocess.Popen(
            ordered(tmp_path, "full"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(number, ours)

    def is_measuring() -> bool:
        measured = figures.exists() and figures.stat().st_size > 0
        return measured and bool(processes_with(f"serve --config {scratch}/"))

    try:
        wait_until(is_measuring, 120, lambda: "no figure, or no broker")
        process.send_signal(number)
        _, said = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    assert read_results(tmp_path / "out").figures
    facts = json.loads((tmp_path / "out" / "machine.json").read_text())
    assert facts["interrupted"] is True
    assert processes_with(f"{scratch}/") == []
    assert list(scratch.iterdir()) == []
