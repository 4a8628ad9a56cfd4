"""An active controller and what it makes of its brokers, in the test's simulated loop."""

import pytest

from tierlog.tests.async_tests import entered
from tierlog.tests.simulation.loop import SimulatedLoop

from .cluster_story import ClusterStory, controlled_cluster


@pytest.fixture
def cluster(loop: SimulatedLoop) -> ClusterStory:
    return entered(controlled_cluster(loop))
