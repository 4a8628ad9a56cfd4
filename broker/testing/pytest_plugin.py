"""The pytest plugin: a broker a session, a topic a test. Loaded wherever tierlog is installed.

    def test_orders(tierlog_broker, tierlog_topic):
        producer = Producer(tierlog_broker.config())
        producer.produce(tierlog_topic, b"one")

With pytest-xdist each worker has its own broker; there is nothing to agree on. With
`--kafka-bootstrap` or KAFKA_BOOTSTRAP_SERVERS all use the cluster named there, and names of topics
do not meet. Nothing of the broker is imported before a test uses a fixture.
"""

import logging
import os
import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from ...clients.environment import SystemEnvironment
from ...clients.supported_system import refusal

if TYPE_CHECKING:
    from .broker import Broker

TOPIC_NAME_MAX = 200
"""Kafka allows 249 characters."""
LOG_TAIL_BYTES = 8 << 10
"""How much of a broker's own log a failing test shows."""

_BROKER = pytest.StashKey["Broker"]()
_MARK = "tierlog_topic(partitions=1, **configs): the partitions and configs of the test's topic"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """The options, of which none is needed."""
    _run_as_it_is(pluginmanager)
    group = parser.getgroup("tierlog", "a Kafka broker for tests")
    group.addoption(
        "--kafka-bootstrap",
        metavar="ADDRESSES",
        help="test against this Kafka, such as 127.0.0.1:9092, instead of a broker of tierlog's; "
        "KAFKA_BOOTSTRAP_SERVERS does the same",
    )
    group.addoption(
        "--tierlog-process",
        action="store_true",
        help="run tierlog's broker in a process of its own",
    )
    parser.addini(
        "tierlog_properties",
        "properties of tierlog's broker, one name=value a line",
        type="linelist",
        default=[],
    )
    parser.addini("tierlog_tier", 'where topics are tiered: "memory" or a URL', default="memory")


def _run_as_it_is(pluginmanager: pytest.PytestPluginManager) -> None:
    """Have the broker's asserts run as they are: they are no tests.

    pytest rewrites those of the whole distribution that a plugin comes from, which costs a broker a
    tenth of its speed and more. It has no other way to say no for a package: where this attribute
    is no more, all works, only slower.
    """
    names = getattr(pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(names, set):
        cast("set[str]", names).discard("tierlog")


def pytest_configure(config: pytest.Config) -> None:
    """Announce the mark, as strict suites require."""
    config.addinivalue_line("markers", _MARK)


def _external_address(config: pytest.Config) -> str | None:
    stated: str | None = config.getoption("--kafka-bootstrap")
    return stated or os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or None


def _properties(config: pytest.Config) -> dict[str, str]:
    lines: list[str] = config.getini("tierlog_properties")
    pairs = [line.partition("=") for line in lines]
    for line, (_, equals, _) in zip(lines, pairs, strict=True):
        if not equals:
            raise pytest.UsageError(f"tierlog_properties: {line!r} has no '=': write name=value.")
    return {name.strip(): value.strip() for name, _, value in pairs}


@pytest.fixture(scope="session")
def tierlog_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A `tierlog.testing.Broker` of this session, with a tier in memory; it is already started."""
    sentence = refusal()
    if sentence is not None:
        pytest.fail(sentence, pytrace=False)
    config = request.config
    address = _external_address(config)
    from .broker import Broker

    if address is not None:
        broker = Broker.external(address)
    else:
        is_process = bool(config.getoption("--tierlog-process"))
        tier: str = config.getini("tierlog_tier")
        broker = Broker(_properties(config), tier=tier or None, process=is_process)
    # What it logs in this process is captured, and reported of a test that fails.
    logger = logging.getLogger("tierlog")
    before = logger.level
    logger.setLevel(logging.INFO)
    with broker:
        config.stash[_BROKER] = broker
        yield broker
        del config.stash[_BROKER]
    logger.setLevel(before)


@pytest.fixture
def tierlog_topic(request: pytest.FixtureRequest, tierlog_broker: "Broker") -> Iterator[str]:
    """The name of a new topic of this test, deleted after it; a mark sets partitions and configs.

    @pytest.mark.tierlog_topic(partitions=3, retention_ms=1000)
    """
    test: pytest.Item = request.node
    mark = test.get_closest_marker("tierlog_topic")
    stated: dict[str, Any] = {} if mark is None else dict(mark.kwargs)
    name = tierlog_broker.create_topic(_unique_name(test.name), **stated)
    yield name
    tierlog_broker.delete_topic(name)


@pytest.fixture
def tierlog_group(request: pytest.FixtureRequest) -> str:
    """The id of a group that no other test uses."""
    return _unique_name(request.node.name)


def _unique_name(test: str) -> str:
    """A name that says which test it belongs to, and that no other run has."""
    words = re.sub(r"[^a-zA-Z0-9.-]+", "-", test).strip("-.")[:TOPIC_NAME_MAX] or "test"
    return f"{words}-{SystemEnvironment().random.getrandbits(64):016x}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """See `_skipping`."""
    return (yield from _skipping(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """See `_skipping`."""
    return (yield from _skipping(item))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End the faults that a test has set: the next one has the same broker."""
    broker = item.config.stash.get(_BROKER, None)
    if broker is not None and broker.has_faults:
        broker.faults.clear()


def _skipping(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test of what only tierlog can do where another broker is tested against."""
    if _external_address(item.config) is None:
        return (yield)
    from .broker_error import OnlyTierlogError

    try:
        return (yield)
    except OnlyTierlogError as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the log of a broker that is a process; the log of one in this process is captured."""
    report = yield
    broker = item.config.stash.get(_BROKER, None)
    if report.failed and broker is not None and (tail := broker.log_tail(LOG_TAIL_BYTES)):
        report.sections.append(("tierlog broker log", tail))
    return report
