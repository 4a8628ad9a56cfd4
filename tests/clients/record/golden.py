"""Segments that real producers filled, kept as annotated hex in `tests/golden/record`."""

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[2] / "golden" / "record"
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")


class Written(NamedTuple):
    """One record as the capture handed it to the producer."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def golden_segment(name: str) -> bytes:
    lines = (FOLDER / f"{name}.hex").read_text(encoding="ascii").splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


def captured_records(empty_header: bytes | None) -> list[Written]:
    """What librdkafka and kafka-python were given; the latter cannot write a null header."""
    return [
        Written(
            1_700_000_000_000 + 7 * number,
            None if number == 3 else b"key-%d" % number,
            None if number == 4 else b"value-%d " % number * 12,
            (("trace", b"\x00\x01"), ("empty", empty_header)) if number % 5 == 0 else (),
        )
        for number in range(10)
    ]
