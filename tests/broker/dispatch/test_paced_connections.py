"""Which connections of a broker are paced, and what is remembered of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.broker.dispatch.apis import Apis
from tierlog.broker.dispatch.fetch_pacing import FetchPacing
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import Response
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

from ...broker_process import BrokerThread, RawClient

_VERSION = 12


@pytest.fixture
def pacings(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The pacing of each connection that has sent a Fetch request, in the order of the requests."""
    seen: list[object] = []
    answer = Apis.answer

    def noted(self: Apis, client: ConnectedClient, frame: memoryview) -> Response:
        response = answer(self, client, frame)
        if bytes(frame[:2]) == b"\0\1":
            seen.append(client.fetch_pacing)
        return response

    monkeypatch.setattr(Apis, "answer", noted)
    return seen


@pytest.fixture
def port(tmp_path: Path, pacings: list[object]) -> Iterator[int]:
    with BrokerThread(tmp_path) as broker:
        yield broker.port


def _fetch(client: RawClient, topic: str, replica_id: int = -1) -> None:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(replica_id=replica_id, max_bytes=1 << 20, topics=topics)
    client.ask(request, _VERSION, FetchResponse)


def test_a_consumer_is_paced_and_a_follower_is_not(port: int, pacings: list[object]) -> None:
    with RawClient(port) as consumer, RawClient(port) as follower:
        _fetch(consumer, "t")
        _fetch(follower, "t", replica_id=7)
    assert isinstance(pacings[0], FetchPacing)
    assert pacings[1] is None


def test_a_connection_has_one_pacing(port: int, pacings: list[object]) -> None:
    with RawClient(port) as consumer:
        _fetch(consumer, "t")
        _fetch(consumer, "other")
    assert pacings[0] is pacings[1]
