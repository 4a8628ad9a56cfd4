"""SIGTERM and Ctrl-C end a job between two commits, and its wait between two rounds."""

import os
import signal
from threading import Timer

import pytest

from tierlog.pipeline.spark.materialize.stop_request import StopRequest

LONGER_THAN_THE_TEST_S = 3600


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.timeout(60)
def test_a_signal_ends_the_wait_for_the_next_round(number: signal.Signals) -> None:
    stop = StopRequest()
    before = signal.getsignal(number)
    with stop.by_signals():
        sender = Timer(0.05, os.kill, (os.getpid(), number))
        sender.start()
        stop.wait(LONGER_THAN_THE_TEST_S)
        sender.join()
        assert stop.is_made
        # What was said before a wait counts as well.
        stop.wait(LONGER_THAN_THE_TEST_S)
    assert signal.getsignal(number) is before


def test_the_second_signal_does_not_wait_for_a_commit() -> None:
    stop = StopRequest()
    with stop.by_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_made
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_without_a_signal_a_wait_ends_by_itself() -> None:
    stop = StopRequest()
    stop.wait(0.001)
    assert not stop.is_made
