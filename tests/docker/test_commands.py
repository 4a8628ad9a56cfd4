"""The small commands of the image: ready, in sync, a bucket; each says one sentence."""

import socket
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread

import pytest

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.network.metadata import PartitionMetadata, TopicMetadata
from tierlog.docker import bucket, in_sync, ready


@pytest.mark.parametrize(
    ("properties", "address"),
    [
        ({"tierlog.metrics.port": "9404"}, ("127.0.0.1", 9404)),
        ({"tierlog.metrics.port": "9404", "tierlog.metrics.host": "0.0.0.0"}, ("127.0.0.1", 9404)),
        ({"tierlog.metrics.port": "80", "tierlog.metrics.host": "127.1.2.3"}, ("127.1.2.3", 80)),
        ({"tierlog.metrics.port": "-1"}, None),
        ({"tierlog.metrics.port": "many"}, None),
        ({}, None),
    ],
)
def test_the_health_check_asks_where_the_node_has_its_metrics(
    properties: Mapping[str, str], address: tuple[str, int] | None
) -> None:
    assert ready.metrics_address(properties) == address


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nready\n", (True, "ready")),
        (
            b"HTTP/1.1 503 Service Unavailable\r\n\r\nThis node is starting.\n",
            (False, "This node is starting."),
        ),
        (b"", (False, "What answered is no metrics endpoint of tierlog.")),
        (b"\x00\x01\x02", (False, "What answered is no metrics endpoint of tierlog.")),
    ],
)
def test_only_200_is_ready(answer: bytes, verdict: tuple[bool, str]) -> None:
    assert ready.judged(answer) == verdict


def test_an_answer_that_never_ends_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_WITHIN_S", 0.5)
    left = Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for _ in range(600):
                if left.wait(0.05):
                    return
                connection.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        with pytest.raises(TimeoutError):
            ready.ask(listener.getsockname()[:2])
        left.set()
        thread.join()


def test_a_damaged_properties_file_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIERLOG_CONFIG_DIR", str(tmp_path))
    for content in (b"\xff", b"a=\\u00"):
        (tmp_path / "server.properties").write_bytes(content)
        assert ready.main() == 1
        assert in_sync.main([]) == 1
        assert capsys.readouterr().out.count("is no properties file") == 2


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_a_wait_without_an_end_is_refused(seconds: str) -> None:
    with pytest.raises(SystemExit):
        in_sync.main([f"--wait={seconds}"])


@pytest.mark.parametrize(
    ("properties", "address"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "127.0.0.1:9092"),
        (
            {
                "listeners": "A://0.0.0.0:1,C://0.0.0.0:2,B://0.0.0.0:3",
                "advertised.listeners": "A://host:1,B://broker1:3",
                "controller.listener.names": "C",
                "inter.broker.listener.name": "B",
            },
            "broker1:3",
        ),
        ({"listeners": "C://:9093", "controller.listener.names": "C"}, None),
    ],
)
def test_a_node_is_asked_where_the_other_brokers_ask_it(
    properties: Mapping[str, str], address: str | None
) -> None:
    assert in_sync.own_address(properties) == address


def _topic(*partitions: PartitionMetadata) -> TopicMetadata:
    return TopicMetadata(ZERO_UUID, dict(enumerate(partitions)))


def test_what_is_out_of_sync_is_named_with_its_brokers() -> None:
    whole = PartitionMetadata(1, 5, (1, 2, 3), (3, 1, 2))
    behind = PartitionMetadata(1, 5, (1, 2, 3), (1,))
    dead = PartitionMetadata(-1, 5, (1,), (1,))
    assert in_sync.out_of_sync({"orders": _topic(whole)}) == []
    assert in_sync.out_of_sync({"orders": _topic(whole, behind), "audit": _topic(dead)}) == [
        "audit-0: no leader, brokers all",
        "orders-1: not in sync, brokers 2, 3",
    ]


class _Store:
    """A store with some buckets, one of which another client makes at a bad moment."""

    def __init__(self, *names: str, rival: str = "") -> None:
        self.names = {*names}
        self._rival = rival

    def mkdir(self, path: str) -> None:
        if path == self._rival:
            self.names.add(path)
            raise FileExistsError(path)
        self.names.add(path)

    def ls(self, path: str) -> list[object]:
        if path not in self.names:
            raise FileNotFoundError(path)
        return []


def test_a_bucket_is_made_once() -> None:
    store = _Store()
    assert bucket.make_bucket(store, "tier") == "The bucket tier is new."
    assert bucket.make_bucket(store, "tier") == "The bucket tier is there."
    assert store.names == {"tier"}


def test_who_is_second_to_make_a_bucket_has_it_too() -> None:
    assert bucket.make_bucket(_Store(rival="tier"), "tier") == "The bucket tier is new."
