"""The picture of a consumer over time, with the pacing of fetches and without."""

from xml.etree import ElementTree

from tierlog.bench.reporting.pacing_picture import measure, picture


def test_every_record_is_counted_once_paced_or_not() -> None:
    for is_paced in (True, False):
        counted = measure(2_000, is_paced)
        assert counted[0] == 0
        assert counted == sorted(counted)
        assert counted[-1] == 2_000


def test_the_picture_shows_both_consumers_in_total_and_by_time() -> None:
    svg = picture([0, 120_000, 240_000], [0, 100_000, 100_000, 100_000], 0.3)

    ElementTree.fromstring(svg)
    for text in ("fetches paced (the default)", "tierlog.fetch.pacing.enable=false"):
        assert svg.count(f">{text}<") == 1
    assert "million records/s" in svg
