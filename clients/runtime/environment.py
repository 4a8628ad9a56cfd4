"""The only access to the wall clock and to randomness.

All code that needs timestamps, random ids or shuffling is given an `Environment`, so that a
simulation can pass a seeded one. Timers and elapsed time come from the running event loop instead.
"""

import os
import random
import time
from typing import Protocol

from ..kafka_uuid import Uuid


class Environment(Protocol):
    """The wall clock and the randomness of a process."""

    @property
    def random(self) -> random.Random: ...

    def wall_clock_ms(self) -> int:
        """Milliseconds since the Unix epoch; may step backwards when the clock is set."""
        ...

    def random_uuid(self) -> Uuid:
        """A new id (UUID version 4) whose text form in Kafka does not start with a dash."""
        ...


def version_4_uuid(random_bytes: bytes) -> Uuid:
    """Set the version and variant bits of RFC 9562 in sixteen random bytes."""
    raw = bytearray(random_bytes)
    raw[6] = (raw[6] & 0x0F) | 0x40
    raw[8] = (raw[8] & 0x3F) | 0x80
    return Uuid(bytes(raw))


def starts_with_dash(uuid: Uuid) -> bool:
    """Whether the text form begins with '-', which makes it look like a command-line option."""
    return uuid[0] >> 2 == 62


class SystemEnvironment:
    """The real environment: the system's clock and the operating system's entropy."""

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(16))

    @property
    def random(self) -> random.Random:
        return self._random

    def wall_clock_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def random_uuid(self) -> Uuid:
        while True:
            uuid = version_4_uuid(os.urandom(16))
            if not starts_with_dash(uuid):
                return uuid
