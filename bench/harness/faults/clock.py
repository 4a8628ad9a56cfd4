"""Faults of a node's clock: it jumps forward or backward while the node runs, and back again.

The clock is `clock_shim.c`. (libfaketime 0.9.10, which Debian 12 has, is no choice: with it,
Python's `time.sleep` fails with EINVAL, or never returns.) The monotonic clock, by which elections,
sessions and timeouts run, is untouched, as when somebody sets the clock of a machine.

The jumps are such that nothing may be lost by Kafka's rules. Forward by less than
`producer.id.expiration.ms` (a day): a broker would forget its producers. Backward by less than
`message.timestamp.after.max.ms` (an hour): it would refuse the records of clients, which seem to
come from the future. And all by less than the retention time.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

from ..processes.cluster import ClusterNode
from .fault import Act, Fault, Grounds, to_one
from .shim import create_control, load_shim, mapped, missing_compiler

_SOURCE = Path(__file__).with_name("clock_shim.c")
_VARIABLE = "TIERLOG_CLOCK_CONTROL"
_OFFSET = struct.Struct("=q")
_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S


def _control(node: ClusterNode) -> Path:
    return node.directory / "clock.control"


def set_clock(node: ClusterNode, ahead_s: int) -> None:
    """Set a node's clock ahead of the system's, or behind it, at once."""
    with mapped(_control(node)) as control:
        control[: _OFFSET.size] = _OFFSET.pack(ahead_s)


def prepare_clock(node: ClusterNode) -> None:
    """Let the node's next start have a clock that can be set. Raises ShimError."""
    create_control(_control(node), _OFFSET.pack(0))
    load_shim(node, _SOURCE, _VARIABLE, _control(node))


def _jump(least_s: int, most_s: int) -> Act:
    """The clock is ahead or behind by something between two times, and then right again."""

    @to_one
    def act(grounds: Grounds, node: ClusterNode, lasts_s: float) -> None:
        set_clock(node, grounds.chance.randint(least_s, most_s))
        try:
            grounds.wait(lasts_s)
        finally:
            set_clock(node, 0)

    return act


CLOCK_FAULTS: Sequence[Fault] = tuple(
    Fault(name, says, _jump(*between_s), missing=missing_compiler, prepare=prepare_clock)
    for name, says, between_s in (
        (
            "clock_seconds_ahead",
            "A node's clock jumps ahead by 2 s to 2 min, and back.",
            (2, 2 * _MINUTE_S),
        ),
        (
            "clock_hours_ahead",
            "A node's clock jumps ahead by 1 to 12 hours, and back.",
            (_HOUR_S, 12 * _HOUR_S),
        ),
        (
            "clock_behind",
            "A node's clock jumps back by 2 s to 50 min, and forward again.",
            (-50 * _MINUTE_S, -2),
        ),
    )
)
