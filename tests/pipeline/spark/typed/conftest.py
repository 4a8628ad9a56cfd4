"""One registry for the tests of a worker; each test has subjects of its own."""

from collections.abc import Iterator

import pytest

from tierlog.tests.pipeline.spark.typed.apicurio import Apicurio


@pytest.fixture(scope="session")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    """A running registry. Its tests need `requires("java", "maven")`."""
    with Apicurio(tmp_path_factory.mktemp("apicurio")) as running:
        yield running
