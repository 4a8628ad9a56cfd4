"""Unmodified clients come in by every way, and see the same errors from us as from Kafka.

One node of each kind has all listeners at once. Each client is a program (orders.py): it writes,
with and without a transaction, and reads in a group; and what it says of a wrong password, a
certificate that is not good, or a right that it lacks is compared, word by word.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from .cases import (
    JUDGED_BY_TLS,
    WAYS,
    WRONG_LOGINS,
    order_of_way,
    refusal_sentence,
    refusals,
)
from .orders import Order, expected_values, run_program
from .programs import PROGRAMS
from .secured_node import OPEN, Papers, SecuredNode, secured_node, write_papers
from .sentences import without_alerts

pytestmark = pytest.mark.long


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


@pytest.mark.requires("java", "mvn")
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_comes_in_by_every_way_and_works(pair: Pair, client: str) -> None:
    topics = [f"{OPEN}{client}-{way.name}" for way in WAYS]
    pair.ours.create_topics(topics)
    orders = [
        order_of_way(way, pair.ours, pair.papers, topic)
        for way, topic in zip(WAYS, topics, strict=True)
    ]
    answers = run_program(PROGRAMS[client](), orders)
    for way, order, answer in zip(WAYS, orders, answers, strict=True):
        assert not answer.error, f"{way.name}: {answer.error}"
        assert answer.values == expected_values(order), way.name


@pytest.mark.requires("java", "mvn")
@pytest.mark.parametrize("client", PROGRAMS)
def test_who_is_not_let_in_sees_what_kafka_shows(pair: Pair, client: str) -> None:
    command = PROGRAMS[client]()
    nodes = (pair.kafka, pair.ours)
    cases = [refusals(node, pair.papers) for node in nodes]
    with ThreadPoolExecutor(len(nodes)) as threads:
        answers = threads.map(lambda each: run_program(command, list(each.values())), cases)
        theirs, own = ([each.error for each in some] for some in answers)
    for name, kafka, ours in zip(cases[0], theirs, own, strict=True):
        print(f"{client}: {name}\n{kafka}" + ("" if kafka == ours else f"\nOURS: {ours}"))
    assert all(theirs)
    compared = zip(cases[0].items(), theirs, own, strict=True)
    assert not [
        (name, kafka, ours)
        for (name, order), kafka, ours in compared
        if not are_alike(client, name, order, kafka, ours)
    ]


def are_alike(client: str, case: str, order: Order, kafka: str, ours: str) -> bool:
    """Whether both errors say the same, as far as Kafka's is the same in each run."""
    if case in JUDGED_BY_TLS:
        return without_alerts(kafka) == without_alerts(ours)
    if client == "kafka-python" and case.startswith(WRONG_LOGINS):
        return _are_alike_for_kafka_python(order, kafka, ours)
    return kafka == ours


def _are_alike_for_kafka_python(order: Order, kafka: str, ours: str) -> bool:
    """It reads until nothing more comes, and forgets what it has read if the connection has ended.

    Kafka closes right after the answer to a wrong login, so that the answer shows in some attempts
    and `socket disconnected` in the others. We close a moment later: the answer always shows.
    """
    said = {f"SaslAuthenticationFailedError: {refusal_sentence(order.mechanism)}"}
    theirs, own = (
        set(
            re.findall(r"\[Error 58\] SaslAuthenticationFailedError: (.*?)\)?$", text, re.MULTILINE)
        )
        for text in (kafka, ours)
    )
    return own == said and (theirs == said or "socket disconnected" in kafka)
