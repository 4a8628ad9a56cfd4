"""What the tests of replication run with, each in the test's simulated loop."""

import pytest

from tierlog.tests.async_tests import entered
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

from .broker_node import BrokerNode, broker_node
from .slow_tier import SlowTier
from .three_replicas import Leader, one_leader


@pytest.fixture
def leader(loop: SimulatedLoop) -> Leader:
    """A leader with two followers."""
    return entered(one_leader(loop))


@pytest.fixture
def node(loop: SimulatedLoop) -> BrokerNode:
    """One broker, from its start to its clean end."""
    return entered(broker_node(loop, SimulatedFiles(SimulatedDisk())))


@pytest.fixture
def tier() -> SlowTier:
    """For `slow_tier.tiered_node`, whose topic has the first offsets in this tier alone."""
    return SlowTier()
