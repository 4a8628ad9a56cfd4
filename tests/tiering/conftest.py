"""One real server for a class of tests, of the kind that the class names."""

from collections.abc import Iterator
from typing import cast

import pytest

from tierlog.tests.tiering.served_storage import ServedStorageConformance
from tierlog.tests.tiering.servers.server import StoreServer


@pytest.fixture(scope="class")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoreServer]:
    suite = cast("type[ServedStorageConformance]", request.node.cls)
    with suite.kind(tmp_path_factory.mktemp(suite.kind.__name__)) as running:
        yield running
