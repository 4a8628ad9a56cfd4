"""A metadata log on a simulated disk, for the tests of its snapshots."""

import pytest

from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

from .opened_metadata import DATA, Metadata


@pytest.fixture
def files() -> SimulatedFiles:
    made = SimulatedFiles(SimulatedDisk())
    made.mkdirs(DATA)
    return made


@pytest.fixture
def led(files: SimulatedFiles) -> Metadata:
    """A log in its first epoch."""
    metadata = Metadata(files)
    metadata.log.become_leader(0)
    metadata.log.flush()
    return metadata
