"""Which rules a request meets."""

import pytest

from tierlog.clients.protocol.api import ApiKey
from tierlog.testing.faults.fault_rules import (
    NO_FAULT,
    RULES_MAX,
    Decision,
    FaultKind,
    FaultRules,
    Rule,
)


def decide(rules: FaultRules, topics: set[str] | None = None) -> Decision:
    return rules.decide(ApiKey.PRODUCE, lambda: topics)


def test_a_request_of_another_api_meets_nothing() -> None:
    rules = FaultRules()
    rules.add(Rule(FaultKind.FAIL, ApiKey.FETCH))
    assert decide(rules) is NO_FAULT


def test_a_rule_is_gone_when_it_was_met_as_often_as_it_may_be() -> None:
    rules = FaultRules()
    rule = Rule(FaultKind.FAIL, ApiKey.PRODUCE, left=2)
    rules.add(rule)
    assert [decide(rules).ending for _ in range(3)] == [rule, rule, None]
    assert rule.met == 2
    assert len(rules) == 0


def test_a_rule_for_a_topic_is_met_by_requests_that_name_it_or_mean_all() -> None:
    rules = FaultRules()
    rules.add(Rule(FaultKind.FAIL, ApiKey.PRODUCE, "orders"))
    assert decide(rules, {"payments"}) is NO_FAULT
    assert decide(rules, {"payments", "orders"}).ending is not None
    assert decide(rules, None).ending is not None


def test_delays_add_up_and_the_first_of_the_other_faults_counts() -> None:
    rules = FaultRules()
    dropped = Rule(FaultKind.DROP_AFTER, ApiKey.PRODUCE, left=1)
    failed = Rule(FaultKind.FAIL, ApiKey.PRODUCE, left=1)
    for rule in (
        Rule(FaultKind.DELAY, ApiKey.PRODUCE, seconds=1),
        dropped,
        failed,
        Rule(FaultKind.DELAY, ApiKey.PRODUCE, seconds=2),
        Rule(FaultKind.THROTTLE, ApiKey.PRODUCE, seconds=3),
        Rule(FaultKind.THROTTLE, ApiKey.PRODUCE, seconds=2),
    ):
        rules.add(rule)
    first, second, third = (decide(rules) for _ in range(3))
    assert [each.ending for each in (first, second, third)] == [dropped, failed, None]
    assert (third.delay_s, third.throttle_s) == (3, 3)


def test_rules_are_bounded() -> None:
    rules = FaultRules()
    for _ in range(RULES_MAX):
        rules.add(Rule(FaultKind.FAIL, ApiKey.PRODUCE))
    with pytest.raises(ValueError, match="1000 faults already"):
        rules.add(Rule(FaultKind.FAIL, ApiKey.PRODUCE))
