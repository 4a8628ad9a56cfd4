"""Two brokers with the same topics: one is asked over one connection, the other over new ones."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.tests import wire

from ..broker_process import BrokerThread, RawClient

TOPICS = ("t", "another-topic")
PARTITIONS = 70


class Asked(Protocol):
    """A request, to be sent to two brokers."""

    @property
    def topic(self) -> str: ...

    def frame(self, topic_id: Uuid, /) -> bytes:
        """Header and body, with the id that the topic has there."""
        ...


class Twin(NamedTuple):
    """A broker and the ids of its topics."""

    port: int
    topic_ids: dict[str, Uuid]

    def frame(self, asked: Asked) -> bytes:
        return asked.frame(self.topic_ids.get(asked.topic, Uuid(b"nobody knows it!")))

    def without_ids(self, answer: bytes) -> bytes:
        for each in self.topic_ids.values():
            answer = answer.replace(each, ZERO_UUID)
        return answer


def create(client: RawClient, name: str) -> Uuid:
    topic = wire.CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    request = wire.CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    (created,) = client.ask(request, 7, wire.CreateTopicsResponse).topics
    assert created.error_code == 0
    return created.topic_id


def delete(client: RawClient, name: str) -> None:
    request = wire.DeleteTopicsRequest(topic_names=[name], timeout_ms=5_000)
    (deleted,) = client.ask(request, 5, wire.DeleteTopicsResponse).responses
    assert deleted.error_code == 0


def twin_of(broker: BrokerThread) -> Twin:
    """The broker, with its topics made."""
    with RawClient(broker.port) as client:
        return Twin(broker.port, {name: create(client, name) for name in TOPICS})


@contextmanager
def twin_brokers(directory: Path) -> Generator[tuple[Twin, Twin]]:
    """The one that may remember and the one that cannot."""
    with (
        BrokerThread(directory / "one") as remembering,
        BrokerThread(directory / "other") as forgetting,
    ):
        yield twin_of(remembering), twin_of(forgetting)


def compare_answers(twins: tuple[Twin, Twin], requests: Sequence[Asked]) -> None:
    """What one connection is answered is what connections are answered that never asked before."""
    remembering, forgetting = twins
    with RawClient(remembering.port) as faithful:
        for asked in requests:
            faithful.send_frame(remembering.frame(asked))
            with RawClient(forgetting.port) as stranger:
                stranger.send_frame(forgetting.frame(asked))
                expected = forgetting.without_ids(stranger.receive_frame())
            assert remembering.without_ids(faithful.receive_frame()) == expected


def compare_tails(twin: Twin, usual: Asked, with_tail: Asked) -> None:
    """What follows a request counts as at its first time, after many usual ones too."""
    with RawClient(twin.port) as client:
        for _ in range(4):
            client.send_frame(twin.frame(usual))
            client.receive_frame()
        client.send_frame(twin.frame(with_tail))
        after_many = client.receive_frame()[:20]
    with RawClient(twin.port) as client:
        client.send_frame(twin.frame(with_tail))
        assert client.receive_frame()[:20] == after_many


def check_cut_requests(twin: Twin, usual: Asked) -> None:
    """A cut request ends its connection, after good ones too."""
    whole = twin.frame(usual)
    for size in range(12, len(whole), 7):
        with RawClient(twin.port) as client:
            for _ in range(3):
                client.send_frame(whole)
                client.receive_frame()
            client.send_frame(whole[:size])
            assert client.is_closed()
