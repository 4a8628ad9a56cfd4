"""The state of client telemetry (KIP-714), loaded when the first client needs it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..metrics.telemetry import Telemetry


class ClientTelemetry:
    """Holds `Telemetry`, or nothing while no client pushes metrics."""

    __slots__ = ("_telemetry",)

    def __init__(self) -> None:
        self._telemetry: Telemetry | None = None

    @property
    def telemetry(self) -> "Telemetry":
        """The state of client telemetry, made at the first call."""
        if self._telemetry is None:
            from ..metrics.telemetry import Telemetry

            self._telemetry = Telemetry()
        return self._telemetry
