"""Shared by tests: what a classic member asks for."""

import struct
from collections.abc import Iterable


def topic_list(owned: Iterable[int]) -> bytes:
    numbers = sorted(owned)
    if not numbers:
        return struct.pack(">i", 0)
    start = struct.pack(">ih3si", 1, 3, b"red", len(numbers))
    return start + b"".join(struct.pack(">i", number) for number in numbers)


def wish(owned: Iterable[int] = ()) -> bytes:
    return struct.pack(">hih3si", 1, 1, 3, b"red", -1) + topic_list(owned)
