"""What `tierlog serve` writes to stderr: text or JSON, and the stacks that SIGUSR1 asks for."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tierlog.tests.broker_process import TEST_PROPERTIES, BrokerProcess, RawClient
from tierlog.tests.house_rules import ROOT
from tierlog.tests.waiting import wait_until

pytestmark = pytest.mark.slow

JSON = ("--log-format", "json")


def objects(broker: BrokerProcess) -> list[dict[str, object]]:
    """The log, each line of which is one JSON object."""
    text = broker.log.read_text()
    return [cast("dict[str, object]", json.loads(line)) for line in text.splitlines()]


def arguments(directory: Path, *more: str) -> list[str]:
    stated = {**TEST_PROPERTIES, "log.dirs": str(directory / "data"), "no.such.property": "1"}
    overrides = [word for name in stated for word in ("--override", f"{name}={stated[name]}")]
    return [*more, *overrides]


@pytest.mark.parametrize("form", [(), JSON], ids=["text", "json"])
def test_stacks_are_shown_and_the_broker_goes_on(tmp_path: Path, form: tuple[str, ...]) -> None:
    more = ("--override", "listeners=PLAINTEXT://:0")
    with BrokerProcess([*arguments(tmp_path, *form), *more], tmp_path) as broker:
        for count in (1, 2):
            os.kill(broker.process.pid, signal.SIGUSR1)
            wait_for_stacks(broker, count)
        with RawClient(broker.port):
            pass
        assert broker.stop() == 0
        text = broker.log.read_text()
        assert "Thread MainThread:" in text
        assert "serve.py" in text
        if form:
            check_objects(objects(broker))
        else:
            assert " WARNING tierlog: Configuration: " in text
            assert text.count(" WARNING tierlog: Security: Any client that reaches PLAINTEXT:") == 1
            assert "\n    Task " in text


def test_a_flood_of_the_signal_neither_ends_the_broker_nor_breaks_a_line(tmp_path: Path) -> None:
    """From the ready line to the end of the process, as fast as a shell can send it."""
    with BrokerProcess(arguments(tmp_path, *JSON), tmp_path) as broker:
        broker.process.send_signal(signal.SIGUSR1)
        process = broker.process
        flood = subprocess.Popen(
            ["/bin/sh", "-c", f"while kill -USR1 {process.pid}; do :; done"],
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: broker.log.read_text().count('"stacks"') > 2, 60, str)
            with RawClient(broker.port):
                pass
            assert broker.stop() == 0
        finally:
            flood.kill()
            flood.wait()
        assert sum("stacks" in line for line in objects(broker)) > 2


_FLOODED = """
import asyncio, os, signal
from tierlog.cli.serve import hear_stop_signals

async def main():
    stop = asyncio.Event()
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    hear_stop_signals(asyncio.get_running_loop(), stop)
    for _ in range(10_000):
        os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(60):
        await stop.wait()
    print("stopped", flush=True)
    await asyncio.sleep(0.3)
    os.kill(os.getpid(), signal.SIGTERM)

asyncio.run(main())
"""


def test_the_end_is_heard_behind_more_signals_than_the_loop_can_take_at_once() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _FLOODED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.stdout, answer.returncode) == ("stopped\n", 130), answer.stderr


_DOUBLED = """
import asyncio, os, signal
from tierlog.cli.serve import hear_stop_signals

async def main():
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    remove = loop.remove_signal_handler
    def remove_and_get_another(number):
        remove(number)
        os.kill(os.getpid(), signal.SIGTERM)
    loop.remove_signal_handler = remove_and_get_another
    hear_stop_signals(loop, stop)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    async with asyncio.timeout(60):
        await stop.wait()
    print("stopped cleanly", flush=True)

asyncio.run(main())
"""


def test_one_stop_that_comes_as_several_signals_at_once_is_a_clean_stop() -> None:
    """`timeout` sends it to its child and to the group of both, `tini -g` and others as well."""
    answer = subprocess.run(
        [sys.executable, "-c", _DOUBLED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.stdout, answer.returncode) == ("stopped cleanly\n", 0), answer.stderr


def wait_for_stacks(broker: BrokerProcess, count: int) -> None:
    wait_until(
        lambda: broker.log.read_text().count("Stacks of ") == count, 60, broker.log.read_text
    )


def check_objects(lines: list[dict[str, object]]) -> None:
    assert all({"ts", "level", "logger", "msg"} <= set(line) for line in lines)
    assert any("no.such.property" in str(line["msg"]) for line in lines)
    stacks = [str(line["stacks"]) for line in lines if "stacks" in line]
    assert len(stacks) == 2
    assert "\nTask " in stacks[0]


def test_what_keeps_the_broker_from_starting_is_json_too(tmp_path: Path) -> None:
    broker = BrokerProcess([*JSON, "--override", "log.segment.bytes=few"], tmp_path)
    try:
        assert broker.process.wait(60) == 1
        (line,) = objects(broker)
        assert line["level"] == "CRITICAL"
        assert "log.segment.bytes" in str(line["msg"])
    finally:
        broker.close()


_LAST_WORDS = """
import warnings
from tierlog.cli import serve
class Sloppy:
    def __del__(self):
        raise ValueError("no\\nsuch thing")
serve._log_to_stderr("json")
Sloppy()
warnings.warn("careful\\nnow", RuntimeWarning)
raise OSError("the end")
"""


def test_tracebacks_and_warnings_of_python_are_json_too() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _LAST_WORDS],
        env={"PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    sloppy, warning, last = (json.loads(line) for line in answer.stderr.splitlines())
    assert "ValueError: no\nsuch thing" in sloppy["trace"]
    assert (warning["level"], warning["logger"]) == ("WARNING", "py.warnings")
    assert last["level"] == "CRITICAL"
    assert last["trace"].endswith("OSError: the end")


def test_levels_are_those_of_the_command_line_from_the_first_line_on(tmp_path: Path) -> None:
    levels = ("--log-level", "ERROR", "--log-level", "tierlog.broker=INFO")
    with BrokerProcess(arguments(tmp_path, *levels), tmp_path) as broker:
        assert broker.stop() == 0
        text = broker.log.read_text()
    assert "Configuration: " not in text
    assert "Stopping." not in text


def test_a_signal_that_was_held_back_before_the_start_ends_it(tmp_path: Path) -> None:
    """The image holds SIGTERM back until the broker listens to it."""
    hold = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM});"
    hold += "os.kill(os.getpid(), signal.SIGTERM); os.execv(sys.executable, sys.argv[1:])"
    serve = [sys.executable, "-m", "tierlog.cli", "serve", *arguments(tmp_path)]
    answer = subprocess.run(
        [sys.executable, "-c", hold, *serve],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr
