"""The system's clocks, whatever a test has done to those of its process.

freezegun puts functions of its own in the place of those of `time`, in every module; time-machine
changes what these functions do, so that references kept from before are of no use. Both leave the
monotonic clock of `clock_gettime` alone, and neither changes what the C library says of the time of
day (docs/decisions/031).
"""

import ctypes
import time
from typing import Final

from ..clients.runtime.environment import SystemEnvironment

_clock_gettime: Final = time.clock_gettime
_MONOTONIC: Final = time.CLOCK_MONOTONIC
_REALTIME: Final = time.CLOCK_REALTIME


class _TimeSpec(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_LIBC = ctypes.CDLL(None)
_LIBC.clock_gettime.argtypes = (ctypes.c_int, ctypes.POINTER(_TimeSpec))
_LIBC.clock_gettime.restype = ctypes.c_int


def monotonic_s() -> float:
    """Seconds since some moment in the past."""
    return _clock_gettime(_MONOTONIC)


class SystemClock(SystemEnvironment):
    """A `SystemEnvironment` whose wall clock no test moves."""

    def wall_clock_ms(self) -> int:
        """See `Environment`. About a microsecond, ten times what `time.time_ns` takes."""
        moment = _TimeSpec()
        failure = _LIBC.clock_gettime(_REALTIME, ctypes.byref(moment))
        assert not failure, "Every system has this clock."
        return int(moment.seconds) * 1_000 + int(moment.nanoseconds) // 1_000_000
