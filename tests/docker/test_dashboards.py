"""The Grafana dashboards: every metric that they ask for is one that a broker has."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.kafka_uuid import Uuid
from tierlog.docker.grafana.dashboards import DASHBOARDS, HERE
from tierlog.docker.grafana.panels import Dashboard, as_json
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.storage.files import OsFiles
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.scenarios.tiering.one_broker import PROPERTIES, finish, tiered_configs
from tierlog.tests.waiting import wait_until

RECORDS = 9
_SELECTOR = re.compile(r"([a-zA-Z_][\w]*)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')
_LINE = re.compile(r"^([a-zA-Z_]\w*)(?:\{(.*)\})? \S+$", re.MULTILINE)
_NAME = re.compile(r"\b[a-z]+(?:_[a-zA-Z]+)+\b")


class Sample(NamedTuple):
    """A line of a metrics page, without its value."""

    family: str
    labels: dict[str, str]


def parse_samples(page: str) -> list[Sample]:
    labels = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
    return [Sample(name, dict(labels.findall(text))) for name, text in _LINE.findall(page)]


def node(directory: Path, number: int, port: int, **stated: str) -> BrokerThread:
    """One of the two nodes of a cluster; it has a directory, and serves its metrics."""
    directory.mkdir()
    identity = Uuid(bytes([number]) * 16)
    LogDir(OsFiles(), str(directory)).write_meta_properties(
        MetaProperties("5L6g3nShT-eMCtK--X86sw", number, identity)
    )
    return BrokerThread(
        directory,
        {
            **PROPERTIES,
            "node.id": str(number),
            "controller.quorum.voters": f"1@127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "offsets.topic.replication.factor": "1",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "rsm.config.url": (directory.parent / "remote").as_uri(),
            **{name.replace("_", "."): text for name, text in stated.items()},
        },
    )


def produce_all_metrics(bootstrap: str) -> None:
    """Records go to the tier, leave the disk, and are read from the tier."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
    }
    admin = AdminClient(settings)
    config = tiered_configs(2, {"retention_bytes": "100000"})
    finish(admin.create_topics([NewTopic("orders", 1, 1, config=config)]).values())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # published without all types
    producer = confluent_kafka.Producer(settings)
    for number in range(RECORDS):
        producer.produce("orders", b"v", timestamp=time.time_ns() // 1_000_000 + number)
        assert producer.flush(60) == 0


def consume(bootstrap: str) -> int:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        return len(consumer.consume(RECORDS, 60))
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sample]]:
    """What a controller and a broker beside it show after a story of the tier."""
    directory = tmp_path_factory.mktemp("dashboards")
    port, ports = free_port(), [free_port(), free_port()]
    controller = node(
        directory / "one",
        1,
        port,
        process_roles="controller",
        listeners=f"CONTROLLER://127.0.0.1:{port}",
        tierlog_metrics_port=str(ports[0]),
    )
    broker = node(
        directory / "two",
        2,
        port,
        process_roles="broker",
        listeners="PLAINTEXT://127.0.0.1:0",
        tierlog_metrics_port=str(ports[1]),
    )

    def page() -> str:
        urls = [f"http://127.0.0.1:{each}/metrics" for each in ports]
        return "".join(urlopen(url, timeout=60).read().decode() for url in urls)

    with ExitStack() as running:
        running.enter_context(controller)
        running.enter_context(broker)
        produce_all_metrics(broker.bootstrap)
        log = directory / "two" / "orders-0" / f"{0:020}.log"
        wait_until(lambda: not log.exists(), 60, "the first segment is on the disk still")
        assert consume(broker.bootstrap) == RECORDS
        # What is by topic and by the size of a partition comes with the next look of the leader.
        wait_until(lambda: '"RetentionSizeInPercent"' in page(), 60, page)
        yield parse_samples(page())


def queries(dashboard: dict[str, Any]) -> list[str]:
    """Every expression, and what the variables are looked up by."""
    targets = (target for panel in dashboard["panels"] for target in panel.get("targets", ()))
    _, *variables = dashboard["templating"]["list"]  # the first names the data source
    return [*(each["expr"] for each in targets), *(each["query"]["query"] for each in variables)]


def is_shown(family: str, matchers: str, shown: list[Sample]) -> bool:
    """Whether a sample passes all matchers but those by a variable of the dashboard."""
    parts = [each for each in _MATCHER.findall(matchers) if "$" not in each[2]]
    assert all(sign != "=~" for _, sign, _ in parts), matchers
    return any(
        all((labels.get(name, "") == text) == (sign == "=") for name, sign, text in parts)
        for each, labels in shown
        if each == family
    )


@pytest.mark.slow
@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
def test_every_metric_of_a_dashboard_is_on_the_page(
    dashboard: Dashboard, samples: list[Sample]
) -> None:
    families = {each.family for each in samples}
    for query in queries(json.loads(as_json(dashboard))):
        selectors = _SELECTOR.findall(query)
        absent = [each for each in selectors if not is_shown(each[0], each[1], samples)]
        assert absent == [], query
        named = {
            each for each in _NAME.findall(re.sub(r'"[^"]*"', "", query)) if each != "label_values"
        }
        assert named <= families, query
        assert selectors or named, query


@pytest.mark.slow
def test_a_metric_that_no_broker_has_is_noticed(samples: list[Sample]) -> None:
    family = "kafka_server_BrokerTopicMetrics_Value"
    assert is_shown(family, 'name="RemoteCopyLagBytes",topic="",instance=~"$instance"', samples)
    assert not is_shown(family, 'name="RemoteCopyLagByte",topic=""', samples)
    assert not is_shown(family + "s", 'name="RemoteCopyLagBytes"', samples)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
def test_the_files_are_what_the_code_says(dashboard: Dashboard) -> None:
    text = (HERE / f"{dashboard.uid}.json").read_text()
    assert text == as_json(dashboard), "run make dashboards"


def test_a_dashboard_has_what_grafana_needs_to_take_it_elsewhere() -> None:
    made = [json.loads(as_json(each)) for each in DASHBOARDS]
    assert [each["uid"] for each in made] == ["tierlog-broker", "tierlog-tier"]
    for each in made:
        names = [variable["name"] for variable in each["templating"]["list"]]
        assert names[:2] == ["datasource", "instance"]
        panels = [panel for panel in each["panels"] if panel["type"] != "row"]
        assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
        assert len({panel["id"] for panel in each["panels"]}) == len(each["panels"])
        assert all(panel["description"] for panel in panels)
        assert each["links"][0]["tags"] == each["tags"] == ["tierlog"]


def test_no_panel_lies_on_another() -> None:
    for dashboard in DASHBOARDS:
        places = [panel["gridPos"] for panel in json.loads(as_json(dashboard))["panels"]]
        cells = [
            (x, y)
            for each in places
            for x in range(each["x"], each["x"] + each["w"])
            for y in range(each["y"], each["y"] + each["h"])
        ]
        assert len(cells) == len(set(cells))
        assert max(x for x, _ in cells) < 24
