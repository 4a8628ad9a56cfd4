"""The scenario of hostile clients: what it measures, and that a broker outlives a small attack."""

import math
import socket
from pathlib import Path

import pytest

from tierlog.bench.figures import RunKey
from tierlog.bench.harness.loads.client_process import run_client
from tierlog.bench.harness.loads.hostile.attacks import ATTACKS, attack_named
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.recorder import Recorder
from tierlog.bench.scenario import Scale
from tierlog.bench.scenarios.catalogue import scenarios_named
from tierlog.bench.scenarios.hostile import SCENARIO, AttackCase, traces
from tierlog.bench.scenarios.hostile_silent import SILENT_CASES, SilentCase

SMALLEST = 0.001


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_has_bytes_for_each_of_its_connections(name: str) -> None:
    attack = attack_named(name, SMALLEST)
    assert attack.connections > 0
    assert all(attack.content(number) for number in range(min(attack.connections, 3)))


def test_every_attack_is_a_case_and_it_runs_only_by_its_name() -> None:
    cases = [
        case for case in SCENARIO.cases(Scale.SMALL) if isinstance(case, (AttackCase, SilentCase))
    ]
    assert sorted(case.attack for case in cases) == sorted(ATTACKS)
    assert SCENARIO not in scenarios_named([])
    assert scenarios_named(["hostile"]) == [SCENARIO]


def test_stack_traces_of_either_language_are_counted() -> None:
    python = "    Traceback (most recent call last):\n      File x\n    ValueError: no\n"
    java = "ERROR oops\njava.lang.Exception: no\n\tat a.b(C.java:1)\n\tat a.c(C.java:2)\nINFO on\n"
    assert traces(python + "INFO a Traceback is told of\n" + java + java + python) == 4


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["pipelined_10", "parked", "unfinished", "junk"])
def test_an_attack_is_measured_and_outlived(tmp_path: Path, attack: str) -> None:
    (case,) = (
        case
        for case in SCENARIO.cases(Scale.SMOKE)
        if isinstance(case, AttackCase) and case.attack == attack
    )
    recorder = Recorder(RunKey("hostile", case.name, "tierlog", False, 1))
    running = TierlogTarget().prepare(tmp_path / "broker", {}, None)
    try:
        SCENARIO.measure(case, running, recorder, Scale.SMOKE)
    finally:
        running.kill()
    figures = {each.metric: each.value for each in recorder.figures()}
    assert figures["died_count"] == figures["traces_count"] == figures["unanswered_count"] == 0
    assert 0 < figures["waited_p50_ms"] <= figures["waited_max_ms"] < math.inf
    assert figures["peak_mib"] < figures["before_mib"] + 256
    assert figures["stop_s"] < 10
    if case.releases:
        assert figures["released_s"] < 15


@pytest.mark.slow
@pytest.mark.parametrize("case", SILENT_CASES, ids=lambda case: case.attack)
def test_silent_clients_cost_nobody_else_anything(tmp_path: Path, case: SilentCase) -> None:
    recorder = Recorder(RunKey("hostile", case.name, "tierlog", False, 1))
    properties = SCENARIO.plan(Scale.SMOKE).properties
    running = TierlogTarget().prepare(tmp_path / "broker", properties, None)
    try:
        SCENARIO.measure(case, running, recorder, Scale.SMOKE)
    finally:
        running.kill()
    figures = {each.metric: each.value for each in recorder.figures()}
    assert figures["failed_count"] == figures["lost_count"] == 0
    assert 0 < figures["login_worst_ms"] <= figures["waited_max_ms"] * 1.01 < math.inf
    assert figures["above_idle_mib"] < 256


@pytest.mark.slow
def test_an_answer_that_never_comes_counts_for_as_long_as_it_was_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        waiting = ("--seconds", "0.2", "--patience", "0.3")
        result = run_client("hostile.bystander", "--bootstrap", address, *waiting)
    assert result.figures["unanswered"] >= 1
    assert max(latency.ms for latency in result.latencies) >= 300
