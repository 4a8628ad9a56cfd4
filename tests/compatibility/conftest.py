"""A broker that the groups of a test file share, each with a topic of its own."""

from collections.abc import Iterator

import pytest

from ..broker_process import BrokerProcess

GROUP_PROPERTIES = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
}
"""What members of the classic protocol ask for themselves."""
PATIENCE_MS = 45_000
"""A session that nobody outlives who is only slow to start."""
PATIENT_PROPERTIES = {**GROUP_PROPERTIES, "group.consumer.session.timeout.ms": str(PATIENCE_MS)}


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess.on(tmp_path_factory.mktemp("broker"), GROUP_PROPERTIES) as process:
        yield process


@pytest.fixture(scope="module")
def patient_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """It keeps the partitions of a static member that is away."""
    with BrokerProcess.on(tmp_path_factory.mktemp("patient"), PATIENT_PROPERTIES) as process:
        yield process
