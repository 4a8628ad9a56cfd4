"""What is held against a cluster's log of changes, and which metrics come of restarts and kills."""

from collections.abc import Sequence

import pytest

from tierlog.bench.harness.cluster_runs.cluster_failover import Failover, Failovers
from tierlog.bench.harness.loads.cluster_changes import (
    SETTING,
    Change,
    Kind,
    Outcome,
    wrong_changes,
)
from tierlog.bench.harness.targets.kafka import KafkaTarget
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.scenario import Scale, Scenario
from tierlog.bench.scenarios import restarts
from tierlog.bench.scenarios.clusters import failover, replicated, rolling, three_nodes
from tierlog.clients.protocol.schema import Message
from tierlog.replication.metadata.metadata_records import ConfigRecord, TopicRecord

from ...fake_target import FakeTarget

SCENARIOS = [
    restarts.SCENARIO,
    failover.SCENARIO,
    rolling.SCENARIO,
    three_nodes.SCENARIO,
    replicated.SCENARIO,
]
OURS = ("death hint", "clean restart", "upgrade and back")
"""Cases of what Kafka does not have, or has in one version only."""


def topic(name: str, outcome: Outcome) -> Change:
    return Change(Kind.TOPIC, name, "", outcome, 0, 1)


def setting(value: str, outcome: Outcome) -> Change:
    return Change(Kind.CONFIG, "t", value, outcome, 0, 1)


def log(topics: Sequence[str] = (), values: Sequence[str] = ()) -> list[Message]:
    created = [TopicRecord(name=name) for name in topics]
    stated = [
        ConfigRecord(resource_type=2, resource_name="t", name=SETTING, value=value)
        for value in values
    ]
    return [*created, *stated]


def test_what_was_acknowledged_is_there_once() -> None:
    history = [topic("a", Outcome.ACKNOWLEDGED), setting("1", Outcome.ACKNOWLEDGED)]
    assert wrong_changes(history, log(["a"], ["1"])) == []
    assert wrong_changes(history, log([], ["1"])) == ["a was acknowledged and is there 0 times."]
    twice = wrong_changes(history, log(["a", "a"], ["1", "1"]))
    assert twice == [
        "a was acknowledged and is there 2 times.",
        "t 1 was acknowledged and is there 2 times.",
    ]


def test_what_was_refused_is_not_there_and_what_was_not_answered_may_be() -> None:
    refused = [setting("1", Outcome.REFUSED)]
    assert wrong_changes(refused, log()) == []
    assert wrong_changes(refused, log(values=["1"])) == ["t 1 was refused and is there 1 times."]
    unknown = [topic("a", Outcome.UNKNOWN)]
    assert wrong_changes(unknown, log()) == wrong_changes(unknown, log(["a"])) == []
    assert wrong_changes(unknown, log(["a", "a"])) == ["a was unknown and is there 2 times."]


def test_acknowledged_settings_keep_their_order() -> None:
    history = [setting("1", Outcome.ACKNOWLEDGED), setting("2", Outcome.ACKNOWLEDGED)]
    assert wrong_changes(history, log(values=["1", "2"])) == []
    assert wrong_changes(history, log(values=["2", "1"])) == [
        "The settings of t are in another order."
    ]


def test_the_time_without_a_controller_is_the_longest_without_an_acknowledgement() -> None:
    ends = [9.0, 10.1, 12.5, 12.6, 14.0, 30.0]
    history = [Change(Kind.TOPIC, f"t{at}", "", Outcome.ACKNOWLEDGED, at, at) for at in ends]
    history.append(Change(Kind.TOPIC, "r", "", Outcome.REFUSED, 11.0, 11.0))
    kill = Failover(1, killed=10.0, settled=14.5, elected_s=2.0)
    assert Failovers([kill], history).unavailable_s() == [pytest.approx(2.4)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("scale", Scale)
def test_what_a_target_cannot_do_is_refused_in_words(scenario: Scenario, scale: Scale) -> None:
    assert scenario.plan(scale).repeats >= 1
    for case in scenario.cases(scale):
        assert scenario.refuses(case, FakeTarget(capabilities=frozenset()))
        assert scenario.refuses(case, TierlogTarget()) is None
        is_ours = case.name.endswith(OURS)
        assert (scenario.refuses(case, KafkaTarget()) is not None) == is_ours
