"""A run's figures are kept back until it is known to count, and carry what was used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.bench.figures import RunKey
from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.processes.process_usage import Usage, read_network_bytes, read_usage
from tierlog.bench.recorder import Recorder
from tierlog.tests.bench.fake_target import FakeRunning

KEY = RunKey("s", "c", "fake", False, 1)
BURN = "import time\nwhile time.process_time() < 0.2: pass"


def numbers(recorder: Recorder) -> dict[str, float]:
    return {figure.metric: figure.value for figure in recorder.figures()}


class Spender(FakeRunning):
    """Uses two CPU seconds and writes three megabytes between two questions."""

    asked = 0

    def usage(self) -> Usage | None:
        self.asked += 1
        return Usage(2.0 * self.asked, 50 << 20, 1_000_000 * self.asked, 3_000_000 * self.asked)


def test_figures_carry_the_run_they_are_of() -> None:
    recorder = Recorder(KEY)
    recorder.figure("start_s", 1)
    (figure,) = recorder.figures()
    assert (figure.scenario, figure.case, figure.target, figure.tiered, figure.run) == KEY
    assert (figure.metric, figure.value) == ("start_s", 1.0)


def test_percentiles_are_figures_and_a_name_begins_theirs() -> None:
    recorder = Recorder(KEY)
    recorder.histogram().record(7, 0)
    recorder.histogram("produce").record(9, 0)
    found = numbers(recorder)
    assert found["p99_ms"] == pytest.approx(7, 0.002)
    assert found["produce_max_ms"] == pytest.approx(9, 0.002)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_does_not_count(value: float) -> None:
    with pytest.raises(MeasurementError, match="came out as"):
        Recorder(KEY).figure("mb_per_s", value)


def test_a_metric_has_one_value_a_run() -> None:
    recorder = Recorder(KEY)
    recorder.figure("mb_per_s", 1)
    with pytest.raises(MeasurementError, match="twice"):
        recorder.figure("mb_per_s", 2)


def test_a_run_without_figures_does_not_count() -> None:
    with pytest.raises(MeasurementError, match="Nothing was measured"):
        Recorder(KEY).figures()
    silent = Recorder(KEY)
    silent.figure("records", 3)
    silent.histogram()
    with pytest.raises(MeasurementError, match="No latency"):
        silent.figures()


def test_what_the_broker_used_is_reported_per_gigabyte_and_per_request(tmp_path: Path) -> None:
    recorder = Recorder(KEY)
    with recorder.usage(Spender("fake", tmp_path), nbytes=500_000_000) as work:
        work.requests = 300
    found = numbers(recorder)
    assert found["broker_cpu_s"] == 2
    assert found["broker_cpu_s_per_gb"] == 4
    assert found["requests_per_broker_cpu_s"] == 150
    assert found["resident_mib"] == 50
    assert (found["disk_read_mb"], found["disk_written_mb"]) == (1, 3)


def test_the_cpu_of_clients_is_distinguished(tmp_path: Path) -> None:
    recorder = Recorder(KEY)
    with recorder.usage(FakeRunning("fake", tmp_path), nbytes=10**9, name="produce"):
        subprocess.run([sys.executable, "-c", BURN], check=True, timeout=60)
    found = numbers(recorder)
    assert found["produce_client_cpu_s"] >= 0.2
    assert found["produce_client_cpu_s_per_gb"] == found["produce_client_cpu_s"]
    assert "produce_broker_cpu_s" not in found  # a broker elsewhere


def test_a_broker_that_ends_meanwhile_makes_the_run_void(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    class Dying(FakeRunning):
        def usage(self) -> Usage | None:
            return read_usage(process.pid)

    with pytest.raises(MeasurementError, match="broker ended"):
        with Recorder(KEY).usage(Dying("fake", tmp_path)):
            process.communicate(b"\n", timeout=60)


def test_usage_of_this_process_is_read() -> None:
    before = read_usage(os.getpid())
    os.sync()
    after = read_usage(os.getpid())
    assert after.cpu_seconds > before.cpu_seconds > 0
    assert after.resident_bytes > 1 << 20
    assert read_network_bytes() >= 0
