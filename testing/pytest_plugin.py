"""The pytest plugin: a broker a session, a topic a test. Loaded wherever tierlog is installed.

    def test_orders(tierlog_broker, tierlog_topic):
        producer = Producer(tierlog_broker.config())
        producer.produce(tierlog_topic, b"one")

With pytest-xdist each worker has its own broker; there is nothing to agree on. With
`--kafka-bootstrap` or KAFKA_BOOTSTRAP_SERVERS all use the cluster named there, and names of topics
do not meet. Nothing of the broker is imported before a test uses a fixture.
"""

import os
import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, cast

import pytest

from ..clients.runtime.environment import SystemEnvironment
from ..clients.runtime.supported_system import refusal
from .broker_warning import BrokerWarning
from .topic_mark import DESCRIPTION, TopicMarkError, topic_settings, unused_mark

if TYPE_CHECKING:
    from .broker import Broker
    from .broker_log import BrokerLog

TOPIC_NAME_MAX = 200
"""Kafka allows 249 characters."""
LOG_TAIL_BYTES = 8 << 10
"""How much of a broker's own log a failing test shows."""

_BOOTSTRAP = "--kafka-bootstrap"
_PROCESS = "--tierlog-process"
_BOOTSTRAP_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"

_BROKER: pytest.StashKey["Broker"] = pytest.StashKey()
_LOG: pytest.StashKey["BrokerLog"] = pytest.StashKey()
_HAS_TOPIC = pytest.StashKey[bool]()
"""Of a test that has used `tierlog_topic`."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """The options, of which none is needed."""
    _run_as_it_is(pluginmanager)
    group = parser.getgroup("tierlog", "a Kafka broker for tests")
    group.addoption(
        _BOOTSTRAP,
        metavar="ADDRESSES",
        help="test against this Kafka, such as 127.0.0.1:9092, instead of a broker of tierlog's; "
        f"{_BOOTSTRAP_VARIABLE} does the same",
    )
    group.addoption(
        _PROCESS,
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
    config.addinivalue_line("markers", DESCRIPTION)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Load what a broker is made of before a test's file system stands, if tests use both."""
    if any("tierlog_broker" in getattr(item, "fixturenames", ()) for item in session.items):
        from .whole_broker import load_if_modules_are_dropped

        load_if_modules_are_dropped()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say where topics are created and deleted, unless that is a broker of tierlog's."""
    address, origin = _external_address(config)
    if address is None:
        return None
    return f"tierlog: tests use the Kafka at {address} ({origin}), and create and delete topics"


def _external_address(config: pytest.Config) -> tuple[str | None, str]:
    """The address of a Kafka that is to be used, and what has named it."""
    stated: str | None = config.getoption(_BOOTSTRAP)
    if stated:
        return stated, _BOOTSTRAP
    return os.environ.get(_BOOTSTRAP_VARIABLE) or None, _BOOTSTRAP_VARIABLE


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
    message = refusal()
    if message is not None:
        pytest.fail(message, pytrace=False)
    from .broker_log import BrokerLog

    config = request.config
    with BrokerLog() as log:
        broker = _start(config)
        try:
            config.stash[_BROKER], config.stash[_LOG] = broker, log
            yield broker
            del config.stash[_BROKER], config.stash[_LOG]
        finally:
            broker.close()


def _start(config: pytest.Config) -> "Broker":
    """The broker of this session. Whatever it fails with, pytest fails all later tests with."""
    from .broker import Broker
    from .broker_error import BrokerError

    address, origin = _external_address(config)
    if address is not None:
        broker = Broker.external(address)
        hint = f" {origin} names this address: without it, the tests have a broker of tierlog's."
    else:
        is_process = bool(config.getoption(_PROCESS))
        tier: str = config.getini("tierlog_tier")
        broker = Broker(_properties(config), tier=tier or None, process=is_process)
        hint = ""
    try:
        broker.start()
    except BrokerError as error:
        pytest.fail(f"{error}{hint}", pytrace=False)
    return broker


@pytest.fixture
def tierlog_topic(request: pytest.FixtureRequest, tierlog_broker: "Broker") -> Iterator[str]:
    """The name of a new topic of this test, deleted after it; a mark sets partitions and configs.

    @pytest.mark.tierlog_topic(3, retention_ms=1000)
    """
    test: pytest.Item = request.node
    test.stash[_HAS_TOPIC] = True
    try:
        settings = topic_settings(test)
    except TopicMarkError as error:
        pytest.fail(str(error), pytrace=False)
    name = tierlog_broker.create_topic(_unique_name(test.name), **settings)
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
    """Begin the log of the test, and see `_skipping`."""
    log = item.config.stash.get(_LOG, None)
    if log is not None:
        log.begin_test()
    return (yield from _skipping(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse a mark that nobody has read, and see `_skipping`."""
    result = yield from _skipping(item)
    if not item.stash.get(_HAS_TOPIC, False) and (message := unused_mark(item)):
        pytest.fail(message, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End the faults that a test has set, and mend its broker: the next one has the same."""
    message = _mended(item)
    try:
        return (yield)
    finally:
        # Last: where warnings are errors, the rest of the test must have been torn down.
        if message:
            item.warn(BrokerWarning(message))


def _mended(item: pytest.Item) -> str:
    """Mend the broker; says what was wrong with it, if it had given up."""
    broker = item.config.stash.get(_BROKER, None)
    if broker is None:
        return ""
    if broker.has_faults:
        broker.faults.clear()
    failure = broker.failure
    return failure and f"{failure} {_revive(broker)}{_hint(item.config)}"


def _revive(broker: "Broker") -> str:
    """Have the broker run again; says with what."""
    from .broker_error import BrokerError

    try:
        broker.restart()
    except BrokerError:
        broker.close()
        broker.start()
        return "A new one was started, without the topics of this one."
    return "It was started again, with its topics."


def _hint(config: pytest.Config) -> str:
    if config.getoption(_PROCESS):
        return ""
    return (
        " If this test replaces functions of Python that the broker stands on, run pytest with "
        f"{_PROCESS}."
    )


def _skipping(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test of what only tierlog can do where another broker is tested against."""
    if _external_address(item.config)[0] is None:
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
    """Show what the broker has logged: of a test that fails, or at the end of its process's log."""
    report = yield
    broker, log = item.config.stash.get(_BROKER, None), item.config.stash.get(_LOG, None)
    if not report.failed or broker is None or log is None:
        return report
    if tail := broker.log_tail(LOG_TAIL_BYTES) or log.tail(LOG_TAIL_BYTES):
        report.sections.append(("tierlog broker log", tail))
    return report
