"""The status API of a broker: it answers as documented, to whom it should, once nothing changes."""

import asyncio
import html
import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from tierlog.bench.harness.requests.admin import create_topic, delete_topic
from tierlog.bench.harness.requests.probe import free_port
from tierlog.broker.broker import Broker, StartError
from tierlog.broker.config.config_values import ConfigValues
from tierlog.broker.node_storage import NodeStorage
from tierlog.cli.configuration import stated_configuration
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.tests.house_rules import ROOT

from ...broker_process import BrokerThread
from ...waiting import wait_until
from .committed_groups import commit
from .status_client import StatusClient

STATUS = {"tierlog.status.port": "0"}
HOSTILE = "<img src=x onerror=alert(1)>\u2028\"'"
_EXAMPLE = re.compile(
    r"^## `GET /api/v1/(\S+)`\n[^#]*?```json\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def client_of(broker: BrokerThread) -> StatusClient:
    assert broker.broker is not None
    return StatusClient(broker.broker.status_url)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    directory = tmp_path_factory.mktemp("status")
    tier = {"rsm.config.url": (directory / "remote").as_uri()}
    with BrokerThread(directory / "logs", {**STATUS, **tier}) as broker:
        create_topic(broker.bootstrap, "orders", {"remote.storage.enable": "true"}, partitions=3)
        create_topic(broker.bootstrap, "plain")
        commit(broker.port, ["billing", HOSTILE], "orders", 3)
        yield broker


@pytest.fixture
def client(broker: BrokerThread) -> StatusClient:
    return client_of(broker)


def shape(value: object) -> object:
    """The keys of an object, and the types of what it holds; of a list, its first element."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {name: shape(member) for name, member in members.items()}
    if isinstance(value, list):
        elements = cast("list[object]", value)
        return [shape(element) for element in elements[:1]]
    if value is None:
        return "any"
    return "number" if type(value) in (int, float) else type(value)


def fits(documented: object, answered: object) -> bool:
    """Whether an answer has the shape of the example; null and an empty list fit anything."""
    if "any" in (documented, answered) or [] in (documented, answered):
        return True
    if isinstance(documented, dict) and isinstance(answered, dict):
        example = cast("dict[str, object]", documented)
        answer = cast("dict[str, object]", answered)
        return example.keys() == answer.keys() and all(
            fits(example[name], answer[name]) for name in example
        )
    if isinstance(documented, list) and isinstance(answered, list):
        pairs = zip(cast("list[object]", documented), cast("list[object]", answered), strict=True)
        return all(fits(*pair) for pair in pairs)
    return documented == answered


def test_every_address_answers_in_the_documented_shape(client: StatusClient) -> None:
    page = (ROOT / "docs" / "status-page.md").read_text()
    examples = {name: json.loads(text) for name, text in _EXAMPLE.findall(page)}
    assert {*examples} == {
        "overview",
        "topics",
        "topics/T",
        "topics/T/fetch",
        "groups",
        "tier",
        "brokers",
    }
    for name, example in examples.items():
        answered = shape(client.get(name.replace("/T", "/orders")))
        # `configs` has what the topic has.
        for each in (example, answered):
            cast("dict[str, Any]", each).pop("configs", None)
        assert fits(shape(example), answered), (name, shape(example), answered)


def test_names_of_clients_come_as_they_are(client: StatusClient) -> None:
    names = [each["group"] for each in client.get("groups")["groups"]]
    assert names == sorted([HOSTILE, "billing"])
    answer = client.ask("/api/v1/groups")
    assert answer.fields["Content-Type"] == "application/json"
    assert answer.fields["X-Content-Type-Options"] == "nosniff"
    (missing,) = client.ask("/api/v1/topics/%3Cimg%20src=x%3E").json.values()
    assert missing == "There is no topic <img src=x>."


def test_an_answer_is_not_sent_twice_while_nothing_changes(client: StatusClient) -> None:
    first = client.ask("/api/v1/topics")
    tag = {"If-None-Match": first.fields["ETag"]}
    again = client.ask("/api/v1/topics", tag)
    assert (again.status, again.body) == (304, b"")
    head = client.ask("/api/v1/topics", method="HEAD")
    assert (head.status, head.body, head.fields["ETag"]) == (200, b"", first.fields["ETag"])


def test_a_changed_topic_is_seen_and_a_deleted_one_is_not(
    broker: BrokerThread, client: StatusClient
) -> None:
    create_topic(broker.bootstrap, "goes", partitions=2)

    def names() -> list[str]:
        return [each["name"] for each in client.get("topics")["topics"] if not each["internal"]]

    wait_until(lambda: "goes" in names(), 30, lambda: str(names()))
    assert client.get("topics/goes")["partitions"][1]["end"] == 0
    tag = client.ask("/api/v1/topics").fields["ETag"]
    delete_topic(broker.bootstrap, "goes")
    wait_until(lambda: names() == ["orders", "plain"], 30, lambda: str(names()))
    assert client.ask("/api/v1/topics", {"If-None-Match": tag}).status == 200
    assert client.ask("/api/v1/topics/goes?from=1").status == 404


def test_a_list_continues_at_the_requested_place(client: StatusClient) -> None:
    numbers = [each["partition"] for each in client.get("topics/orders?from=1")["partitions"]]
    assert numbers == [1, 2]
    assert client.get("topics/orders?from=9")["partitions"] == []
    assert client.ask("/api/v1/topics?from=-1").status == 400
    assert client.ask("/api/v1/topics/orders/fetch?partition=x").status == 400
    assert client.ask("/api/v1/topics/orders/fetch?partition=3").status == 404
    assert client.get("topics/orders/fetch?partition=2")["where"] == "end"
    assert client.get("topics/orders/fetch?offset=1")["where"] == "out of range"
    assert client.ask("/api/v1/topics?from=" + "9" * 30).status == 400
    assert client.ask("/api/v1/else").json.keys() == {"error"}


def test_the_tables_stand_without_a_script(client: StatusClient) -> None:
    hostile = html.escape(HOSTILE.replace("\u2028", "\ufffd"))
    for path in ("/tables", "/tables/topics", "/tables/topics/orders", "/tables/groups"):
        answer = client.ask(path)
        assert (answer.status, answer.fields["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert hostile in answer.body.decode()
    assert b"<h2>Partition 2</h2>" in client.ask("/tables/topics/orders?from=2").body
    assert b"<h2>Partition 1</h2>" not in client.ask("/tables/topics/orders?from=2").body
    brokers = client.ask("/tables/brokers")
    assert b" (controller)" in brokers.body
    assert client.ask("/tables/brokers", {"If-None-Match": brokers.fields["ETag"]}).status == 304
    missing = client.ask("/tables/topics/%3Cimg%20src=x%3E")
    assert (missing.status, missing.body) == (404, b"There is no topic <img src=x>.\n")
    assert missing.fields["Content-Type"] == "text/plain; charset=utf-8"
    for path in ("/tables/", "/tables/tier", "/tables/topics/orders/fetch", "/tablesx"):
        assert client.ask(path).status == 404
    assert client.ask("/tables?from=x").status == 400


def test_a_web_page_cannot_ask_through_a_browser(client: StatusClient) -> None:
    for path in ("/metrics", "/api/v1/topics", "/", "/ready", "/tables", "/tables/topics/orders"):
        assert client.ask(path, {"Host": "evil.example"}).status == 421
        assert client.ask(path, {"Sec-Fetch-Site": "cross-site"}).status == 403
        assert client.ask(path, method="POST").status == 405
        for answer in (client.ask(path), client.ask(path, {"Host": "evil.example"})):
            assert answer.fields["Content-Security-Policy"].startswith("default-src 'none'; ")
            assert not [name for name in answer.fields if name.startswith("Access-Control")]


def test_only_the_pages_own_files_are_served(client: StatusClient) -> None:
    for path in ("/../site.py", "/%2e%2e/status_site.py", "/status_site.py", "//etc/passwd", "/x"):
        answer = client.ask(path)
        assert (answer.status, b"import" in answer.body) == (404, False)


def test_health_is_answered_at_both_ports(tmp_path: Path) -> None:
    with BrokerThread(tmp_path, {**STATUS, "tierlog.metrics.port": "0"}) as broker:
        assert broker.broker is not None
        metrics = StatusClient(f"http://127.0.0.1:{broker.broker.metrics_port}")
        for client in (metrics, client_of(broker)):
            assert client.ask("/healthz").body == b"ok\n"
            assert client.ask("/ready").body == b"ready\n"
            assert client.ask("/metrics").body.startswith(b"# HELP ")
        assert metrics.ask("/api/v1/overview").status == 404
        off = client_of(broker).get("tier")
        assert (off["state"], off["location"], off["bytes"]) == ("off", None, 0)


def test_trouble_of_the_tier_is_said_and_does_not_make_the_broker_unready(tmp_path: Path) -> None:
    tier = {
        "rsm.config.url": "file:///proc/tierlog",
        "remote.log.manager.task.interval.ms": "100",
        "log.initial.task.delay.ms": "100",
    }
    with BrokerThread(tmp_path, {**STATUS, **tier}) as broker:
        tiered = {"remote.storage.enable": "true", "internal.segment.bytes": "1000"}
        create_topic(broker.bootstrap, "orders", tiered)
        client = client_of(broker)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for _ in range(3):
            producer.produce("orders", bytes(800))
            producer.flush(30)
        wait_until(
            lambda: client.get("tier")["state"] == "trouble", 60, lambda: str(client.get("tier"))
        )
        said = client.get("overview")["tier"]["sentence"]
        ready = client.ask("/ready")
        assert (ready.status, ready.body.decode()) == (200, f"ready\n{said}\n")


def test_during_a_recovery_the_broker_is_healthy_and_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, may_go_on = NodeStorage.load, threading.Event()

    def long_load(storage: NodeStorage, image: ClusterImage) -> None:
        assert may_go_on.wait(60)
        load(storage, image)

    monkeypatch.setattr(NodeStorage, "load", long_load)
    port = free_port()
    starting = BrokerThread(tmp_path, {"tierlog.status.port": str(port)})
    client = StatusClient(f"http://127.0.0.1:{port}")
    with ThreadPoolExecutor(1) as starter:
        started = starter.submit(starting.__enter__)
        try:
            wait_until(lambda: is_healthy(client), 30, "no health while it starts")
            for path in ("/ready", "/api/v1/overview", "/tables"):
                answer = client.ask(path)
                assert (answer.status, b"This node is starting." in answer.body) == (503, True)
        finally:
            may_go_on.set()
            started.result(60)
    assert client.ask("/ready").status == 200
    assert client.get("overview")["topics"] == 0
    starting.__exit__()


def is_healthy(client: StatusClient) -> bool:
    try:
        return client.ask("/healthz").status == 200
    except ConnectionRefusedError:
        return False


def test_nothing_is_served_where_no_port_is_set(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        assert broker.broker is not None
        assert broker.broker.status_url == ""


def test_a_port_in_use_stops_a_broker_that_is_configured_with_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = BrokerThread(tmp_path, {"tierlog.status.port": str(port)})
        with pytest.raises(StartError, match=f"Cannot serve the status page on 127.0.0.1:{port}"):
            refused.__enter__()


def test_the_dev_broker_takes_a_free_port_if_its_own_is_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tier = f"rsm.config.url={(tmp_path / 'remote').as_uri()}"
    dev = stated_configuration(
        None, ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path}/logs", tier]
    )

    async def story(port: int) -> None:
        stated = {**dev.values.stated, "tierlog.status.port": str(port)}
        broker = Broker(replace(dev, values=ConfigValues(stated)))
        await broker.start()
        said = f"Port {port} is in use: the status page is at {broker.status_url}"
        assert said in caplog.messages
        await broker.stop()

    with socket.create_server(("127.0.0.1", 0)) as other:
        asyncio.run(story(other.getsockname()[1]))


def test_the_dev_broker_alone_has_a_port_unasked(tmp_path: Path) -> None:
    def port_of(*overrides: str, file: str | None = None) -> tuple[int, bool]:
        config = stated_configuration(file, overrides)
        return config.values.integer("tierlog.status.port"), config.may_move_status

    assert port_of() == (9093, True)
    assert port_of("listeners=PLAINTEXT://127.0.0.1:19092") == (19093, True)
    assert port_of("listeners=PLAINTEXT://127.0.0.1:0") == (0, True)
    assert port_of("listeners=PLAINTEXT://127.0.0.1:65535") == (0, True)
    assert port_of("tierlog.status.port=-1") == (-1, False)
    assert port_of("tierlog.status.port=9999") == (9999, False)
    file = tmp_path / "server.properties"
    file.write_text(f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}\n")
    assert port_of(file=str(file)) == (-1, False)
