"""A broker with a tier, and its page in a browser that opens it once and never loads it again."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import Browser, Locator, expect

from tierlog.tests.broker.status.page.browser import COMMAND, THEMES, browser, tab
from tierlog.tests.broker.status.status_client import StatusClient
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.requires(COMMAND)]

_TOPIC = "orders"
_GROUP = "<img src=x onerror=alert(1)>"
_WITHIN_S = 60.0
_GROUNDS = {"light": "rgb(247, 248, 250)", "dark": "rgb(17, 22, 29)"}
_PROPERTIES = {
    "tierlog.status.port": "0",
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "offsets.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}
# The time index of a segment is full after two batches, which closes it.
_CONFIGS = {
    "remote.storage.enable": "true",
    "remote.log.copy.disable": "true",
    "index.interval.bytes": "1",
    "segment.index.bytes": "24",
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    executable = shutil.which(COMMAND)
    assert executable is not None
    with browser(executable) as running:
        yield running


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    tier = f"file://{tmp_path / 'tier'}"
    with BrokerThread(tmp_path / "data", {**_PROPERTIES, "rsm.config.url": tier}) as running:
        yield running


class _Owner:
    """Who has the topic: creates it, sets it, writes to it, and reads it as a group."""

    def __init__(self, bootstrap: str) -> None:
        self._address: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
        }
        self._admin = AdminClient(self._address)
        self._producer = Producer(self._address)

    def create(self) -> None:
        (created,) = self._admin.create_topics([NewTopic(_TOPIC, 1, 1, config=_CONFIGS)]).values()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # published without all types
        created.result(_WITHIN_S)

    def set(self, **configs: str) -> None:
        """Set properties, with `_` for each dot."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, _TOPIC, incremental_configs=entries)
        (changed,) = self._admin.incremental_alter_configs([resource]).values()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # published without all types
        changed.result(_WITHIN_S)

    def produce(self, records: int) -> None:
        for number in range(records):
            self._producer.produce(_TOPIC, b"v%d" % number)
            assert self._producer.flush(_WITHIN_S) == 0

    def commit(self, offset: int) -> None:
        consumer = Consumer({**self._address, "group.id": _GROUP})
        try:
            consumer.commit(offsets=[TopicPartition(_TOPIC, 0, offset)], asynchronous=False)
        finally:
            consumer.close()


def _is_at(first: Locator, where: str) -> None:
    expect(first).to_have_attribute("data-where", where)


def test_a_segment_goes_to_the_tier_before_the_eyes_of_who_looks(
    chromium: Browser, broker: BrokerThread
) -> None:
    assert broker.broker is not None
    url = f"{broker.broker.status_url}/"
    owner = _Owner(broker.bootstrap)
    owner.create()
    owner.produce(1)
    with tab(chromium, still=True) as opened:
        opened.open(f"{url}#/topics/{_TOPIC}")
        page = opened.page
        first = page.locator('rect[data-base="0"]')
        _is_at(first, "active")
        page.evaluate("window.isTheSame = true")
        page.get_by_label("A fetch at offset").fill("0")

        owner.produce(4)
        _is_at(first, "local")
        owner.set(remote_log_copy_disable="false")
        _is_at(first, "both")
        owner.set(local_retention_bytes="1")
        _is_at(first, "remote")
        expect(page.locator(".fetch output")).to_contain_text("The tier: segment 0 to ")

        tick = page.locator("g[data-group]")
        for offset in ("1", "4"):
            owner.commit(int(offset))
            expect(tick).to_have_attribute("data-offset", offset)
        expect(tick).to_contain_text(_GROUP)
        assert page.locator("img").count() == 0
        assert page.evaluate("window.isTheSame") is True

    for theme in THEMES:
        with tab(chromium, theme, still=True) as opened:
            for route in (f"#/topics/{_TOPIC}", "#/groups"):
                opened.open(url + route)
                assert opened.violations() == [], route
                assert opened.page.locator("#trouble").inner_text() == ""


def test_without_javascript_the_tables_of_a_tiered_topic_stand(
    chromium: Browser, broker: BrokerThread
) -> None:
    assert broker.broker is not None
    url = broker.broker.status_url
    status = StatusClient(url)
    owner = _Owner(broker.bootstrap)
    owner.create()
    owner.set(remote_log_copy_disable="false", local_retention_bytes="1")
    owner.produce(5)
    owner.commit(1)

    def places() -> list[str]:
        (partition,) = status.get(f"topics/{_TOPIC}")["partitions"]
        return [each["where"] for each in partition["segments"]]

    wait_until(lambda: places() == ["remote", "remote", "active"], _WITHIN_S, lambda: str(places()))
    with tab(chromium, scripts=False) as opened:
        page = opened.page
        page.goto(url)
        expect(page).to_have_url(f"{url}/tables")
        expect(page.get_by_role("region", name="Brokers of the cluster")).to_be_visible()
        topics = page.get_by_role("region", name="Topics, with the groups that read them")
        expect(topics.get_by_text(f"{_GROUP} 4")).to_be_visible()
        topics.get_by_role("link", name=_TOPIC, exact=True).click()
        expect(page.locator("h1")).to_have_text(_TOPIC)
        segments = page.get_by_role("table", name="Partition 0: segments").locator("tbody tr")
        expect(segments.nth(0)).to_contain_text("tier only")
        expect(segments.nth(2)).to_contain_text("active, local")
        group = page.get_by_role("table", name="Partition 0: groups").locator("tbody tr")
        expect(group).to_contain_text(_GROUP)
        assert page.locator("img").count() == 0
    for theme in THEMES:
        # These pages have no script, but axe is one.
        with tab(chromium, theme) as opened:
            for path in ("tables", f"tables/topics/{_TOPIC}"):
                opened.page.goto(f"{url}/{path}")
                assert opened.violations() == [], path
            ground = opened.page.locator("body").evaluate("e => getComputedStyle(e).background")
            assert ground.startswith(_GROUNDS[theme])
