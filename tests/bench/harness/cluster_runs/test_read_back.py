"""Reading everything back after a run, when the cluster does not have everything."""

from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tierlog.bench.harness.cluster_runs.durability import read_back
from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.tests.broker_process import BrokerThread


def test_a_log_without_its_beginning_is_said_and_not_skipped(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        bootstrap = f"127.0.0.1:{broker.port}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)  # pyright: ignore[reportUnknownMemberType] # published without all types
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(4):
            producer.produce("t", f"{number} ".encode())
        assert producer.flush(30) == 0
        assert [each.number for each in read_back(bootstrap, "t", 1)[0]] == [0, 1, 2, 3]
        for deleted in admin.delete_records([TopicPartition("t", 0, 2)]).values():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # published without all types
            deleted.result(30)
        with pytest.raises(MeasurementError, match=r"t cannot be read: .*out of range"):
            read_back(bootstrap, "t", 1)
