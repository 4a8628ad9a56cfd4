"""Wherever the power goes while a log directory is first used, what was promised is there."""

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.files import SimulatedFiles

META = MetaProperties("cluster", 1, Uuid(bytes(range(16))))


class FirstStart:
    """A directory that does not exist yet is made, and tied to a cluster and a node."""

    path = "/data"

    def __init__(self) -> None:
        self.is_promised = False

    def prepare(self, files: SimulatedFiles) -> None:
        pass

    def work(self, files: SimulatedFiles) -> None:
        log_dir = LogDir(files, self.path)
        log_dir.acquire()
        log_dir.write_meta_properties(META)
        self.is_promised = True

    def check(self, files: SimulatedFiles) -> None:
        found = LogDir(files, self.path).read_meta_properties()
        assert found in ((META,) if self.is_promised else (META, None))


class FirstStartFarBelow(FirstStart):
    """Its parents do not exist either."""

    path = "/srv/tierlog/one/data"


class SecondDirectory(FirstStart):
    """One of its parents has been there for long."""

    path = "/srv/tierlog/two/data"

    def prepare(self, files: SimulatedFiles) -> None:
        files.mkdirs("/srv/tierlog")


@pytest.mark.parametrize("story", [FirstStart, FirstStartFarBelow, SecondDirectory])
def test_a_new_directory_is_not_forgotten_with_what_was_written_into_it(
    story: type[FirstStart],
) -> None:
    assert cut_power_everywhere(story, chances_per_point=10) > 5
