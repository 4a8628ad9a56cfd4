"""Places and ranges in a partition, as text."""

import pytest

from tierlog.cli.client.address import UsageError
from tierlog.cli.client.positions import END, START, Place, Range, parse_range

NOON = Place(time_ms=1_769_860_800_000)
HALF_PAST = Place(time_ms=1_769_862_600_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", Range(START, None)),
        ("beginning", Range(START, None)),
        ("end", Range(END, None)),
        ("42", Range(Place(offset=42), None)),
        ("+5", Range(Place(from_start=5), None)),
        ("-5", Range(Place(from_end=5), None)),
        ("1:9", Range(Place(offset=1), Place(offset=9))),
        (":end", Range(START, END)),
        ("7:", Range(Place(offset=7), None)),
        ("@1769860800", Range(NOON, None)),
        ("@1769860800000:1769862600000", Range(NOON, HALF_PAST)),
        ("@2026-01-31T12:00:00Z", Range(NOON, None)),
        ("@2026-01-31T13:00+01:00:end", Range(NOON, END)),
        ("@2026-01-31T12:00:@2026-01-31T12:30", Range(NOON, HALF_PAST)),
        ("@-1h30m:end", Range(Place(ago_ms=5_400_000), END)),
        ("@-2d:-1d", Range(Place(ago_ms=172_800_000), Place(ago_ms=86_400_000))),
        ("s@1769860800000", Range(NOON, None)),
        ("e@1769860800000", Range(START, NOON)),
    ],
)
def test_what_a_text_means(text: str, expected: Range) -> None:
    assert parse_range(text) == expected


@pytest.mark.parametrize(
    "text", ["", "x", "@", "@5", "@-1", "@-1x", "1:x", "--5", "1:2:3", "9" * 30, "٣", "@yesterday"]
)
def test_what_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_range(text)
