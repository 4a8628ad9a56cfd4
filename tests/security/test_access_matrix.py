"""Each API without a right, with some of its rights, and with enough (Kafka's integration test)."""

from collections.abc import Iterator
from itertools import combinations
from typing import cast

import pytest

from tierlog.clients.protocol.api import SERVED_ON, ApiKey, ListenerKind, served_by_member
from tierlog.security.api_checks import CHECKS, CheckedBy, check_of

from ..broker_process import RawClient
from ..conformance.side_by_side import Plain
from .access_cases import (
    DESCRIBE,
    EXISTING,
    MISSING,
    Case,
    Names,
    cluster,
    group,
    topic,
    transaction,
)
from .access_matrix import CASES
from .ruled_broker import RuledBroker, Rules, answer_to, denials, prepare

CHANGES_WHAT_IS_THERE = frozenset({ApiKey.DELETE_TOPICS, ApiKey.DELETE_GROUPS})


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RawClient, Rules, dict[str, Names]]]:
    with (
        RuledBroker(tmp_path_factory.mktemp("ruled")) as broker,
        RawClient(broker.port) as client,
    ):
        yield client, broker.rules, prepare(client)


def renamed(answer: Plain, name: str) -> Plain:
    """An answer without the name that was asked about, and without whether an id is there."""
    if isinstance(answer, dict):
        return {key: renamed(value, name) for key, value in answer.items()}
    if isinstance(answer, list):
        return [renamed(item, name) for item in answer]
    return "NAME" if answer == name else answer


def test_every_api_has_a_check_on_every_listener() -> None:
    for kind in ListenerKind:
        for served in (SERVED_ON[kind], served_by_member(kind)):
            assert [key for key in served if check_of(key, kind) is None] == []


def test_only_these_apis_are_open_to_everybody() -> None:
    assert {ApiKey(key) for key, check in CHECKS.items() if check.by is CheckedBy.NOBODY} == {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    }


def test_every_api_of_a_broker_that_is_checked_has_a_case() -> None:
    of_members = {ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER}
    # Lists that leave out what may not be seen: the tests of hiding have them.
    lists = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER}
    checked = {
        ApiKey(key)
        for key in SERVED_ON[ListenerKind.BROKER]
        if CHECKS[key].by is not CheckedBy.NOBODY
    }
    assert checked - {case.key for case in CASES} - of_members == lists


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_a_right_the_request_is_refused_and_discloses_nothing(
    stage: tuple[RawClient, Rules, dict[str, Names]], case: Case
) -> None:
    client, rules, names = stage
    rules.allow(())
    there, nowhere = (answer_to(client, case, names[name]) for name in (EXISTING, MISSING))
    assert denials(there) == case.denied
    assert renamed(there, EXISTING) == renamed(nowhere, MISSING)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_right_is_needed_and_all_of_them_are_enough(
    stage: tuple[RawClient, Rules, dict[str, Names]], case: Case
) -> None:
    client, rules, names = stage
    name = MISSING if case.key in CHANGES_WHAT_IS_THERE else EXISTING
    for rights in case.needs(name):
        rules.allow(rights)
        assert denials(answer_to(client, case, names[name])) == set()
    for rights in case.needs(EXISTING):
        for fewer in combinations(rights, len(rights) - 1):
            if not is_enough(case, EXISTING, fewer):
                rules.allow(fewer)
                assert denials(answer_to(client, case, names[EXISTING]))


def is_enough(case: Case, name: str, rights: object) -> bool:
    held = set(cast("tuple[object, ...]", rights))
    return any(set(enough) <= held for enough in case.needs(name))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_describing_is_enough_for_nothing_else(
    stage: tuple[RawClient, Rules, dict[str, Names]], case: Case
) -> None:
    client, rules, names = stage
    name = MISSING if case.key in CHANGES_WHAT_IS_THERE else EXISTING
    rights = (
        topic(DESCRIBE, name),
        group(DESCRIBE, name),
        transaction(DESCRIBE, name),
        cluster(DESCRIBE),
    )
    rules.allow(rights)
    denied = denials(answer_to(client, case, names[name]))
    # The name of a topic that is not there may be told to whoever may describe it.
    may_answer = case.key is ApiKey.DELETE_TOPICS
    assert may_answer or bool(denied) != is_enough(case, name, rights)
