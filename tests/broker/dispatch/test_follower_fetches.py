"""Large Fetch requests of followers: from the first byte to the last they wait for no client."""

import asyncio
from collections.abc import Generator, Hashable

import pytest

from tierlog.broker.request.large_requests import LargeRequests
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from tierlog.replication.leader.log_reader import LogReader
from tierlog.replication.partition.partition import Partition
from tierlog.tests import wire

from ...broker_process import BrokerThread, RawClient

MANY = 1_200
"""Partitions that fill more than 16 KiB of a request."""
TOPIC = Uuid(b"t" * 16)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), {}) as broker:
        yield broker


@pytest.fixture
def queues(broker: BrokerThread, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For each piece of work that is queued, whose queue it is."""
    queued: list[str] = []
    submit = LargeRequests.submit
    assert broker.broker is not None
    context = broker.broker.context
    assert context is not None

    def watched(
        self: LargeRequests, work: Generator[None, None, object], client: Hashable = None
    ) -> asyncio.Future[object]:
        queued.append("followers" if self is context.follower_requests else "clients")
        return submit(self, work, client)

    monkeypatch.setattr(LargeRequests, "submit", watched)
    return queued


def as_a_replica(*_: object, **__: object) -> None:
    """The only broker has no followers: take one for a replica all the same."""


def fetch(
    replica_id: int, version: int, count: int, session_id: int = 0, session_epoch: int = -1
) -> FetchRequest:
    request = FetchRequest(
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic="none",
                topic_id=TOPIC,
                partitions=[FetchPartition(partition=number) for number in range(count)],
            )
        ],
    )
    if version < 15:
        request.replica_id = replica_id
    else:
        request.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=1)
    return request


@pytest.mark.parametrize("version", [7, 11, 12, 13, 15, 17])
@pytest.mark.parametrize(("replica_id", "whose"), [(7, "followers"), (-1, "clients")])
def test_a_large_request_waits_in_its_own_queue(
    broker: BrokerThread, queues: list[str], version: int, replica_id: int, whose: str
) -> None:
    with RawClient(broker.port) as client:
        full = client.ask(fetch(replica_id, version, MANY, session_epoch=0), version, FetchResponse)
        assert full.session_id
        again = fetch(replica_id, version, MANY, session_id=full.session_id, session_epoch=1)
        client.ask(again, version, FetchResponse)
        client.ask(
            fetch(replica_id, version, 0, session_id=full.session_id), version, FetchResponse
        )
    assert queues
    assert set(queues) == {whose}


@pytest.mark.parametrize(("replica_id", "whose"), [(7, "followers"), (-1, "clients")])
def test_a_long_answer_after_a_wait_is_encoded_in_the_same_queue(
    broker: BrokerThread,
    queues: list[str],
    monkeypatch: pytest.MonkeyPatch,
    replica_id: int,
    whose: str,
) -> None:
    monkeypatch.setattr(Partition, "check_follower", as_a_replica)
    monkeypatch.setattr(LogReader, "_note_follower", as_a_replica)
    name = f"of-{whose}"
    topics = [wire.CreatableTopic(name=name, num_partitions=600, replication_factor=1)]
    with RawClient(broker.port) as client:
        create = wire.CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        (created,) = client.ask(create, 7, wire.CreateTopicsResponse).topics
        assert created.error_code == 0
        partitions = [FetchPartition(partition=number) for number in range(600)]
        request = FetchRequest(
            replica_id=replica_id,
            max_wait_ms=200,
            min_bytes=1,
            topics=[FetchTopic(topic=name, partitions=partitions)],
        )
        errors = {ErrorCode.NOT_LEADER_OR_FOLLOWER}
        while errors != {ErrorCode.NONE}:
            # The logs of so many partitions take some turns.
            assert errors <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
            queues.clear()
            (topic,) = client.ask(request, 11, FetchResponse).responses
            errors = {ErrorCode(each.error_code) for each in topic.partitions}
    # To read it, to read it again, and to encode what it has read.
    assert queues == [whose] * 3
