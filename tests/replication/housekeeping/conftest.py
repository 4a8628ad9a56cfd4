"""A broker on a simulated disk, from its start to its clean end."""

import pytest

from tierlog.tests.async_tests import entered
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

from ..broker_node import BrokerNode, broker_node


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def files(disk: SimulatedDisk) -> SimulatedFiles:
    return SimulatedFiles(disk)


@pytest.fixture
def node(loop: SimulatedLoop, files: SimulatedFiles) -> BrokerNode:
    return entered(broker_node(loop, files))
