"""`tierlog.testing.Broker` where something goes wrong, or comes at a bad moment."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from confluent_kafka import Producer

from tierlog.testing import Broker, BrokerError
from tierlog.tests.testing.broker_clients import TIMEOUT_S, our_threads, produce, values

TraceFunction = Callable[[FrameType, str, Any], Any]
SOURCES = str(Path(Broker.start.__code__.co_filename).parent)
"""Where the code is whose lines are counted."""
MINIMUM_LINES = 30


@contextmanager
def interrupted_after(seconds: float) -> Generator[None]:
    """Ctrl-C, so long after now."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def interrupted_at_line(number: int) -> Generator[None]:
    """Ctrl-C before so many lines of `tierlog.testing` have been run by this thread."""
    left = number

    def trace(frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        nonlocal left
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def is_interrupted(broker: Broker, interruption: AbstractContextManager[None]) -> bool:
    """Start a broker; where Ctrl-C ended the start, all that it began has to be gone."""
    try:
        with interruption:
            broker.start()
    except KeyboardInterrupt:
        assert our_threads() == []
        return True
    finally:
        broker.close()
    return False


def test_ctrl_c_at_any_line_of_a_start_leaves_no_thread_and_no_lock(tmp_path: Path) -> None:
    number = 1
    while is_interrupted(Broker(directory=str(tmp_path)), interrupted_at_line(number)):
        number += 1
    assert number > MINIMUM_LINES
    with Broker(directory=str(tmp_path)) as broker:
        broker.create_topic("orders")


def test_ctrl_c_at_any_time_of_a_start_leaves_no_thread_and_no_lock(tmp_path: Path) -> None:
    interrupted = [
        is_interrupted(Broker(directory=str(tmp_path)), interrupted_after(tenths / 10_000))
        for tenths in range(1, 40)
    ]
    assert any(interrupted)
    with Broker(directory=str(tmp_path)) as broker:
        broker.create_topic("orders")


async def test_a_start_that_is_cancelled_leaves_no_thread_and_no_lock(tmp_path: Path) -> None:
    async def start() -> None:
        async with Broker(directory=str(tmp_path)):
            await asyncio.Event().wait()

    for tenths in range(1, 40, 3):
        task = asyncio.create_task(start())
        await asyncio.sleep(tenths / 10_000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert our_threads() == [], tenths
    with Broker(directory=str(tmp_path)) as broker:
        broker.create_topic("orders")


class Stuck(Broker):
    """It says that it cannot stop."""

    def close(self) -> None:
        super().close()
        raise BrokerError("The broker is stuck.")


def test_a_failure_to_stop_does_not_hide_the_error_of_the_body() -> None:
    with pytest.raises(ZeroDivisionError) as raised, Stuck():
        raise ZeroDivisionError
    assert "stuck" in raised.value.__notes__[0]
    with pytest.raises(BrokerError, match="stuck"), Stuck():
        pass


def test_offload_moves_what_there_is_while_others_go_on_writing() -> None:
    with Broker(tier="memory") as broker:
        broker.create_topic("busy")
        produce(broker, "busy", [(b"k", b"before")] * 100)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        is_done = threading.Event()

        def write() -> None:
            while not is_done.wait(0.001):
                producer.produce("busy", b"meanwhile")
                producer.poll(0)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            broker.offload("busy")
        finally:
            is_done.set()
            writer.join()
        producer.flush(TIMEOUT_S)
        assert not Path(broker.directory, "data", "busy-0", f"{0:020d}.log").exists()
        assert values(broker, "busy").count(b"before") == 100


def test_no_thread_is_left_of_a_broker_whose_tier_was_at_work() -> None:
    threads = set(threading.enumerate())
    for _ in range(20):
        with Broker(tier="memory") as broker:
            broker.create_topic("orders")
            broker.records("orders")
        assert set(threading.enumerate()) == threads


def test_what_cannot_be_used_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(BrokerError, match=f"{file}"):
        Broker(directory=f"{file}/below").start()
    with pytest.raises(BrokerError, match="not started"):
        _ = Broker().port
    with Broker({"auto.create.topics.enable": False, "num.partitions": 3}) as broker:
        with pytest.raises(BrokerError, match="no topic"):
            broker.records("orders")


def test_whoever_uses_a_broker_that_does_not_run_reads_what_to_do() -> None:
    with pytest.raises(BrokerError, match=r"`with Broker\(\) as broker:`"):
        Broker().create_topic("orders")
    with Broker() as broker:
        broker.kill()
        with pytest.raises(BrokerError, match=r"after `kill\(\)`, call `restart\(\)`"):
            broker.records("orders")


def test_a_misspelt_property_is_refused() -> None:
    sentence = r"^Unknown property num.partition; did you mean num.partitions\?$"
    for process in (False, True):
        with pytest.raises(BrokerError, match=sentence):
            Broker({"num.partition": "7"}, process=process).start()


@pytest.mark.parametrize("name", ["log.dirs", "log.dir"])
def test_the_directory_is_the_one_that_a_property_names(name: str, tmp_path: Path) -> None:
    with Broker({name: tmp_path / "logs"}) as broker:
        broker.create_topic("orders")
        assert broker.directory == f"{tmp_path}/logs"
        assert Path(broker.directory, "orders-0").is_dir()


def test_a_tier_that_never_works_is_reported_by_the_first_attempt() -> None:
    with Broker(tier="file:///proc/tierlog") as broker:
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"v")])
        with pytest.raises(BrokerError, match=r"^Topic orders was not copied to the tier; .*proc"):
            broker.offload("orders")
