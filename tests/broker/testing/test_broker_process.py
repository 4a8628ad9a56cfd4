"""`tierlog.testing.Broker` as a process of its own."""

import os
from pathlib import Path

import pytest

from tierlog.testing import Broker, BrokerError
from tierlog.tests.broker.testing.broker_clients import produce, values

pytestmark = pytest.mark.slow


def test_a_process_is_killed_started_again_and_offloads() -> None:
    with Broker(tier="memory", process=True) as broker:
        directory, address = broker.directory, broker.bootstrap_servers
        broker.create_topic("orders")
        produce(broker, "orders", [(b"k", b"1")])
        broker.kill()
        with pytest.raises(BrokerError, match="does not run"):
            broker.offload("orders")
        broker.restart()
        assert broker.bootstrap_servers == address
        produce(broker, "orders", [(b"k", b"2")])
        broker.offload("orders")
        assert values(broker, "orders") == [b"1", b"2"]
        assert "Copied to remote storage" in broker.log_tail()
        with pytest.raises(BrokerError, match="cleanup"):
            broker.compact("orders")
    assert not os.path.exists(directory)


def test_a_start_that_is_refused_says_why(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"log\.retention\.hours"):
        Broker({"log.retention.hours": "soon"}, process=True).start()
