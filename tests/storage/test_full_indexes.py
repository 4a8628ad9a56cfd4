"""When an index takes no more entries its segment is closed, at the same batches as in Kafka."""

from pathlib import Path

import pytest

from tierlog.storage.config import LogConfig
from tierlog.tests.storage.log_home import NOW_MS, LogHome, append, plain


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_the_first_batch_after_a_restart_is_not_indexed(tmp_path: Path, clean: bool) -> None:
    """As in Apache Kafka 4.3.1, which closed its segments there, whatever way it was stopped."""
    config = LogConfig(segment_index_bytes=100, index_interval_bytes=69)
    home = LogHome(tmp_path, config)
    log = home.open()
    for _ in range(24):
        append(log, plain(size=100))
    if clean:
        log.close(NOW_MS)
    else:
        log.release()
    log = home.open(clean=clean)
    for _ in range(24, 42):
        append(log, plain(size=100))
    assert log.local.segments.base_offsets == [0, 13, 27, 40]
