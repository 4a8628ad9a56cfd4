"""A partition whose segments are in the tier, in the test's simulated loop."""

import pytest

from tierlog.tests.async_tests import entered
from tierlog.tests.simulation.loop import SimulatedLoop

from ..remote_partition import RemotePartition, remote_partition


@pytest.fixture
def partition(loop: SimulatedLoop) -> RemotePartition:
    return entered(remote_partition([(0, 0)]))
