"""A broker that may have few files open: it refuses what it cannot hold, and what it has lives."""

from functools import partial
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.tests import wire
from tierlog.tests.broker_process import BrokerProcess, RawClient
from tierlog.tests.storage.log_home import plain
from tierlog.tests.waiting import wait_until

pytestmark = pytest.mark.long

PARTITIONS = 700
SIX_HUNDRED_FILES = ("sh", "-c", 'ulimit -n 600; exec "$0" "$@"')


def create(client: RawClient, name: str, partitions: int) -> tuple[int, str | None]:
    topic = wire.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    request = wire.CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
    (result,) = client.ask(request, 7, wire.CreateTopicsResponse).topics
    return result.error_code, result.error_message


def produce(client: RawClient, topic: str, partition: int) -> int:
    data = wire.PartitionProduceData(index=partition, records=bytes(plain()))
    request = wire.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[wire.TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = client.ask(request, 9, wire.ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def takes_records(client: RawClient, partition: int) -> bool:
    return produce(client, "many", partition) == ErrorCode.NONE


def test_partitions_that_could_not_be_opened_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with (
        BrokerProcess.on(tmp_path, before=SIX_HUNDRED_FILES) as broker,
        RawClient(broker.port) as client,
    ):
        code, message = create(client, "many", 9_999)
        assert code == ErrorCode.POLICY_VIOLATION
        assert message is not None
        assert "ulimit -n" in message
        assert create(client, "few", 2) == (ErrorCode.NONE, None)
        assert produce(client, "few", 1) == ErrorCode.NONE


@pytest.mark.slow
def test_more_logs_than_descriptors_are_written_and_survive_a_kill(tmp_path: Path) -> None:
    allowed = {"tierlog.max.partitions": "2000"}
    with (
        BrokerProcess.on(tmp_path, allowed, SIX_HUNDRED_FILES) as broker,
        RawClient(broker.port, 60) as client,
    ):
        assert create(client, "many", PARTITIONS) == (ErrorCode.NONE, None)
        for number in range(PARTITIONS):
            wait_until(
                partial(takes_records, client, number), 30, f"partition {number} takes records"
            )
        assert "offline" not in broker.log.read_text()
        broker.kill()
    with (
        BrokerProcess.on(tmp_path, before=SIX_HUNDRED_FILES) as broker,
        RawClient(broker.port, 60) as client,
    ):
        for number in range(PARTITIONS):
            assert produce(client, "many", number) == ErrorCode.NONE
        log = broker.log.read_text()
        assert "offline" not in log
        assert "Traceback" not in log
