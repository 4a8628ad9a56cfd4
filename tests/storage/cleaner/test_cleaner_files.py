"""A cleaning of a log of many segments does with few open files."""

from contextlib import suppress
from pathlib import Path

from tierlog.storage.cleaner.cleanable_log import measure
from tierlog.storage.cleaner.cleaner_config import CleanerConfig
from tierlog.storage.cleaner.log_cleaner import LogCleaning
from tierlog.storage.files import OsFiles

from ..compacted_log import COMPACTED, put, roll
from ..log_home import NOW_MS, LogHome


def test_a_cleaning_of_many_segments_has_few_files_open(tmp_path: Path) -> None:
    """However many there are, a process may have only so many open."""
    home = LogHome(tmp_path, COMPACTED, OsFiles(max_open=8))
    log = home.open()
    for number in range(40):
        put(log, ("key", str(number)))
        roll(log)
    log.flush()
    config = CleanerConfig(dedupe_buffer_size=1000, io_buffer_load_factor=1.0, io_buffer_size=100)
    cleaning = LogCleaning(measure(log, 0, NOW_MS), config, NOW_MS)
    most = open_files_below(home.path)
    for _ in cleaning.read_keys():
        most = max(most, open_files_below(home.path))
    for group in cleaning.groups():
        for _ in cleaning.clean(group):
            most = max(most, open_files_below(home.path))
        assert cleaning.swap(group, NOW_MS)
    assert most <= 10


def open_files_below(directory: Path) -> int:
    """Descriptors of this process that are of files in the directory."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += each.readlink().is_relative_to(directory)
    return found
