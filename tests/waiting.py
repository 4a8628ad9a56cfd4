"""The one door to waiting in real time, for tests that talk to real processes.

What can be simulated is simulated, and waits in virtual time. A test of a real process waits for
the condition itself: as short as it takes, and with a deadline that names what never came.
"""

import time
from collections.abc import Callable

POLL_S = 0.05


def wait_until(
    condition: Callable[[], bool], timeout_s: float, describe: Callable[[], str] | str
) -> None:
    """Return as soon as the condition holds; AssertionError with the description if it never does.

    `describe` may be a function, so that it can tell how things stand at the deadline.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            what = describe if isinstance(describe, str) else describe()
            raise AssertionError(f"Not within {timeout_s:g} s: {what}")
        time.sleep(POLL_S)
