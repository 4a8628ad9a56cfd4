"""What an attack of the scenario `hostile` is made of.

The bytes of each are created once, before anything is sent. No attack needs a password, and each
is small compared with the work that it causes for an unprepared broker.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple


class Again(Enum):
    """When a connection sends its bytes once more."""

    NEVER = auto()
    ALWAYS = auto()
    """As soon as all are sent: requests pile up behind those that wait."""
    ANSWERED = auto()
    """When something was answered: one request at a time."""


class Pace(NamedTuple):
    """A connection that sends slowly: some bytes at once, and then some each time."""

    at_once: int
    then: int
    every_s: float


@dataclass(frozen=True, slots=True)
class Attack:
    """The number of connections of an attack, and the bytes that each sends, by its number.

    A connection that the broker closes is opened again. With `stays_s` the attacker closes each
    connection after this time and opens another.
    """

    connections: int
    content: Callable[[int], bytes]
    again: Again = Again.NEVER
    reads: bool = True
    stays_s: float | None = None
    pace: Pace | None = None


def many(count: int, weight: float) -> int:
    """A part of `count`, at least 1."""
    return max(1, int(count * weight))


def always(content: bytes) -> Callable[[int], bytes]:
    """The same bytes for each connection."""

    def of_connection(_number: int) -> bytes:
        return content

    return of_connection
