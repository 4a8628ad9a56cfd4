"""A file that gets shorter under a running broker: reads end with an error, and end."""

import os
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.storage.log_home import NOW_MS, LogHome, append, plain

BATCHES = 3


def filled_and_cut(home: LogHome, kept_bytes: int) -> UnifiedLog:
    """A log of three batches, of whose file somebody else leaves so many bytes."""
    log = home.open()
    for step in range(BATCHES):
        append(log, plain(2, NOW_MS + step))
    os.truncate(log.local.active_segment.path, kept_bytes)
    return log


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kept_bytes", [0, 5, 100, 110, 113, 130, 180])
def test_a_walk_over_a_file_that_was_cut_ends_with_an_error(
    tmp_path: Path, kept_bytes: int
) -> None:
    segment = filled_and_cut(LogHome(tmp_path), kept_bytes).local.active_segment
    assert segment.size > 200
    with pytest.raises(KafkaError) as caught:
        list(segment.batches())
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError) as caught:
        list(segment.pin().batches())
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kept_bytes", [130, 180, 240])
def test_a_search_by_time_in_a_file_that_was_cut_ends_with_an_error(
    tmp_path: Path, kept_bytes: int
) -> None:
    home = LogHome(tmp_path)
    log = filled_and_cut(home, kept_bytes)
    with pytest.raises(KafkaError) as caught:
        log.offset_for_timestamp(NOW_MS + 2)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
