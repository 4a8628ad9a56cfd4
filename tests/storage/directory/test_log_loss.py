"""What opening a log has cost is told, with place, reason and counts."""

from pathlib import Path

import pytest

from tierlog.tests.storage.log_home import NOW_MS, LogHome
from tierlog.tests.storage.manager.damaged_directories import flip, lived_in, truncate


def test_what_a_recovery_drops_is_reported_with_place_and_reason(tmp_path: Path) -> None:
    home = LogHome(tmp_path)
    log = lived_in(home)
    bases = log.local.segments.base_offsets
    log.close(NOW_MS)
    names = home.names(".log")
    flip(home.path / names[2])
    sizes = [(home.path / name).stat().st_size for name in names]
    again = home.open(clean=False)
    kept = (home.path / names[2]).stat().st_size
    (loss,) = home.log_dir.losses
    assert loss.offset == again.log_end_offset
    assert loss.cut_bytes == sizes[2] - kept
    assert (loss.later_segments, loss.later_bytes) == (len(bases) - 3, sum(sizes[3:]))
    assert str(loss) == (
        f"The log of orders-0 in {home.path} was truncated at offset {loss.offset} because the "
        f"CRC of the record batch there is wrong; {loss.cut_bytes} bytes of that segment and "
        f"{loss.later_segments} later segments of {loss.later_bytes} bytes are lost."
    )


def test_what_is_cut_out_of_the_middle_of_a_log_is_reported_and_the_rest_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A closed segment without its index is recovered, as in Kafka up to the first wrong CRC."""
    home = LogHome(tmp_path)
    log = lived_in(home)
    bases = log.local.segments.base_offsets
    log.close(NOW_MS)
    names = home.names(".log")
    flip(home.path / names[2])
    (home.path / home.names(".index")[2]).unlink()
    size = (home.path / names[2]).stat().st_size
    again = home.open(clean=True)
    (loss,) = home.log_dir.losses
    assert again.local.segments.base_offsets == bases
    assert again.log_end_offset == log.log_end_offset
    assert loss.cut_bytes == size - (home.path / names[2]).stat().st_size
    assert str(loss) == (
        f"The log of orders-0 in {home.path} is missing offsets {loss.offset} to {bases[3] - 1} "
        f"because the CRC of the record batch there is wrong; {loss.cut_bytes} bytes of that "
        "segment are lost, and the records after them are kept."
    )
    assert "a segment file was removed or truncated" not in caplog.text


@pytest.mark.parametrize("clean", [True, False])
def test_a_torn_tail_is_reported_even_after_a_clean_shutdown(tmp_path: Path, clean: bool) -> None:
    home = LogHome(tmp_path)
    log = lived_in(home)
    log.close(NOW_MS)
    truncate(home.path / home.names(".log")[-1])
    again = home.open(clean=clean)
    (loss,) = home.log_dir.losses
    assert str(loss) == (
        f"The log of orders-0 in {home.path} was truncated at offset {again.log_end_offset} "
        f"because no complete record batch begins there; {loss.cut_bytes} bytes of that segment "
        "are lost."
    )


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_lost_nothing_tells_nothing(tmp_path: Path, clean: bool) -> None:
    home = LogHome(tmp_path)
    log = lived_in(home)
    log.close(NOW_MS)
    for name in home.names("index"):
        (home.path / name).unlink()
    home.open(clean=clean)
    assert home.log_dir.losses == []
