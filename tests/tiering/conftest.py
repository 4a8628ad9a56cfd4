"""What the tests of the tier run with: a broker that leads, or a real server."""

from collections.abc import Iterator
from typing import cast

import pytest

from tierlog.tests.async_tests import entered
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.served_storage import ServedStorageConformance
from tierlog.tests.tiering.servers.server import StoreServer
from tierlog.tests.tiering.tiered_broker import TieredBroker, leading_broker


@pytest.fixture
def broker(loop: SimulatedLoop) -> TieredBroker:
    """A broker that leads the partition, in the test's simulated loop."""
    return entered(leading_broker(loop))


@pytest.fixture(scope="class")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoreServer]:
    """One real server for a class of tests, of the kind that the class names."""
    suite = cast("type[ServedStorageConformance]", request.node.cls)
    with suite.kind(tmp_path_factory.mktemp(suite.kind.__name__)) as running:
        yield running
