"""Unmodified clients come in by every way, and see the same errors from us as from Kafka.

One node of each kind has all listeners at once. Each client is a program (orders.py): it writes,
with and without a transaction, and reads in a group; and what it says of a wrong password, a
certificate that is not good, or a right that it lacks is compared, word by word.
"""

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from .cases import (
    JUDGED_BY_TLS,
    MECHANISM_OFF,
    PLAIN_TO_TLS,
    WAYS,
    WRONG_LOGINS,
    WRONG_TOKENS,
    order_of_way,
    refusal_sentence,
    refusals,
)
from .orders import Order, expected_values, run_programs
from .programs import PROCESSES, PROGRAMS, TOOLCHAINS
from .secured_node import OPEN, Papers, SecuredNode, secured_node, write_papers
from .sentences import without_alerts

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

each_client = pytest.mark.parametrize(
    "client",
    [
        pytest.param(name, marks=pytest.mark.requires(*TOOLCHAINS.get(name, ())))
        for name in PROGRAMS
    ],
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both, side by side."""

    kafka: SecuredNode
    ours: SecuredNode
    papers: Papers


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("clients")
    papers = write_papers(folder)
    with ExitStack() as stack:
        kafka = stack.enter_context(secured_node("kafka", folder / "kafka", papers))
        ours = stack.enter_context(secured_node("tierlog", folder / "ours", papers))
        yield Pair(kafka, ours, papers)


@each_client
def test_a_client_comes_in_by_every_way_and_works(pair: Pair, client: str) -> None:
    topics = [f"{OPEN}{client}-{way.name}" for way in WAYS]
    pair.ours.create_topics(topics)
    orders = [
        order_of_way(way, pair.ours, pair.papers, topic)
        for way, topic in zip(WAYS, topics, strict=True)
    ]
    answers = run_programs(PROGRAMS[client](), orders, PROCESSES.get(client, 1))
    for way, order, answer in zip(WAYS, orders, answers, strict=True):
        assert not answer.error, f"{way.name}: {answer.error}"
        assert answer.values == expected_values(order), way.name


@each_client
def test_who_is_not_let_in_sees_what_kafka_shows(pair: Pair, client: str) -> None:
    command, processes = PROGRAMS[client](), PROCESSES.get(client, 1)
    nodes = (pair.kafka, pair.ours)
    cases = [refusals(node, pair.papers) for node in nodes]

    def errors(orders: Mapping[str, Order]) -> list[str]:
        return [each.error for each in run_programs(command, list(orders.values()), processes)]

    with ThreadPoolExecutor(len(nodes)) as threads:
        theirs, own = threads.map(errors, cases)
    for name, kafka, ours in zip(cases[0], theirs, own, strict=True):
        print(f"{client}: {name}\n{kafka}" + ("" if kafka == ours else f"\nOURS: {ours}"))
    assert all(theirs)
    compared = zip(cases[0].items(), theirs, own, strict=True)
    assert not [
        (name, kafka, ours)
        for (name, order), kafka, ours in compared
        if not are_alike(client, name, order, kafka, ours)
    ]


_PLAIN_TO_TLS = {
    "franz-go": (
        "invalid large response size 352518912 > limit 104857600; the first three bytes received "
        "appear to be a tls alert record for TLS v1.2; is this a plaintext connection speaking to "
        "a tls endpoint?",
        "broker closed the connection immediately during api versions negotiation, which often "
        "happens when the broker requires TLS but the client is using plaintext: is TLS missing?",
    ),
    "sarama": (
        "kafka: client has run out of available brokers to talk to: unexpected EOF",
        "kafka: client has run out of available brokers to talk to: EOF",
    ),
}
"""What each shows that reads Kafka's alert as a response, and what of us, who send none."""


_REFUSED = "SaslAuthenticationFailedError: SaslAuthenticationFailedError: "


def are_alike(client: str, case: str, order: Order, kafka: str, ours: str) -> bool:
    """Whether both errors say the same, as far as Kafka's is the same in each run."""
    if case in JUDGED_BY_TLS:
        return without_alerts(kafka) == without_alerts(ours)
    if case == PLAIN_TO_TLS and client in _PLAIN_TO_TLS:
        return (kafka, ours) == _PLAIN_TO_TLS[client]
    if client == "kafka-python" and case == PLAIN_TO_TLS:
        # Kafka's alert gets lost in some attempts, as its answers below do.
        alert = "InvalidReceiveError: Invalid frame length: 352518912"
        is_seen = alert in kafka or "socket disconnected" in kafka
        return is_seen and alert not in ours and "socket disconnected" in ours
    if client == "kafka-python" and case == MECHANISM_OFF:
        return _is_lost_or_alike("UnsupportedSaslMechanismError", kafka, ours)
    if client == "kafka-python" and case.startswith(WRONG_LOGINS):
        return _is_lost_or_alike(f"{_REFUSED}{refusal_sentence(order.mechanism)}", kafka, ours)
    if client == "kafka-python" and case in WRONG_TOKENS:
        return _is_lost_or_alike(f'{_REFUSED}{{"status":"invalid_token"}}', kafka, ours)
    if client == "kafka-python":
        return _CUT_OFF.sub("", kafka) == _CUT_OFF.sub("", ours)
    return kafka == ours


_CUT_OFF = re.compile(
    r"\nlogged: CONNECTION: (Abort|Connection lost:) \(?KafkaTimeoutError\)?$", re.MULTILINE
)
"""What kafka-python logs of an attempt that is under way when its time for all of them ends."""


def _is_lost_or_alike(said: str, kafka: str, ours: str) -> bool:
    """Whether kafka-python shows of us what Kafka has said, and of Kafka the same or nothing.

    It reads until nothing more comes, and forgets what it has read if the connection has ended.
    Kafka closes right after it has refused a login, so that its answer shows in some attempts and
    `socket disconnected` in the others. We close a moment later: the answer always shows.
    """
    theirs, own = (
        set(re.findall(r"\[Error (?:33|58)\] (.*?)\)?$", text, re.MULTILINE))
        for text in (kafka, ours)
    )
    return own == {said} and (theirs == {said} or "socket disconnected" in kafka)
