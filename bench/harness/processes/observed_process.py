"""A broker's process while it is attacked, as shown in /proc: memory, sockets, whether it lives."""

import os
from contextlib import suppress
from pathlib import Path

from ..measurement_error import MeasurementError

_MEBIBYTE = 1 << 20


class ObservedProcess:
    """The broker's process, as shown in /proc."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    def is_alive(self) -> bool:
        return (self._folder / "fd").exists()

    def sockets(self) -> int:
        """The number of open sockets; other files also vary with use."""
        count = 0
        for name in os.listdir(self._folder / "fd") if self.is_alive() else ():
            with suppress(OSError):
                count += os.readlink(self._folder / "fd" / name).startswith("socket")
        return count

    def _mib(self, name: str) -> float:
        try:
            status = (self._folder / "status").read_text("ascii")
        except OSError as error:
            raise MeasurementError("The broker ended while it was observed.") from error
        return int(status.partition(f"{name}:")[2].split()[0]) * 1024 / _MEBIBYTE

    def resident_mib(self) -> float:
        return self._mib("VmRSS")

    def peak_mib(self) -> float:
        return self._mib("VmHWM")

    def forget_peak(self) -> None:
        """Reset the peak to the current value."""
        (self._folder / "clear_refs").write_text("5")
