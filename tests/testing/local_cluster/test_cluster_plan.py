"""A local cluster's plan: who has which role, what each node is given, and its file."""

import json

import pytest
from hypothesis import given, strategies as st

from tierlog.broker.config.config import read_config
from tierlog.clients.properties import parse_properties
from tierlog.testing.local_cluster.cluster_plan import (
    DECIDED_HERE,
    ClusterPlan,
    PlanError,
    Seat,
    check_stated,
    new_plan,
    node_properties,
    plan_from_json,
    plan_to_json,
    properties_text,
)

ID = "JEXY6aqzQY-32P5TStzaFg"


def with_ports(plan: ClusterPlan) -> ClusterPlan:
    for at, seat in enumerate(list(plan.seats.values())):
        plan = plan.with_seat(seat._replace(port=10_000 + at, controller_port=20_000 + at))
    return plan


@pytest.mark.parametrize(
    ("brokers", "controllers", "voters"),
    [
        (1, 0, {1}),
        (2, 0, {1, 2}),
        (3, 0, {1, 2, 3}),
        (4, 0, {1, 2, 3}),
        (5, 0, {1, 2, 3, 4, 5}),
        (9, 0, {1, 2, 3, 4, 5}),
        (3, 1, {101}),
        (2, 3, {101, 102, 103}),
    ],
)
def test_the_voters_of_a_new_cluster(brokers: int, controllers: int, voters: set[int]) -> None:
    plan = new_plan(ID, brokers, controllers)
    assert {seat.node_id for seat in plan.controllers} == voters
    assert [seat.node_id for seat in plan.brokers] == list(range(1, brokers + 1))


@pytest.mark.parametrize(("brokers", "controllers"), [(0, 0), (51, 0), (3, 8), (3, -1)])
def test_a_size_that_is_none_is_refused(brokers: int, controllers: int) -> None:
    with pytest.raises(PlanError, match=r"a local cluster has \d to \d+"):
        new_plan(ID, brokers, controllers)


def test_racks_are_given_out_in_turn() -> None:
    plan = new_plan(ID, 4, 1, ["a", "b", "c"])
    assert [seat.rack for seat in plan.brokers] == ["a", "b", "c", "a"]


def test_an_added_broker_never_has_the_id_of_one_that_left() -> None:
    plan = new_plan(ID, 3, 0)
    plan = plan.with_seat(Seat(plan.next_id, True, False)).without(4)
    assert plan.next_id == 5
    assert plan_from_json(plan_to_json(plan)).next_id == 5


@pytest.mark.parametrize(("brokers", "controllers"), [(1, 0), (2, 0), (3, 0), (4, 0), (3, 3)])
def test_each_node_is_given_properties_that_a_broker_accepts(
    brokers: int, controllers: int
) -> None:
    plan = with_ports(new_plan(ID, brokers, controllers, ["a", "b"]))
    for seat in plan.seats.values():
        config = read_config(node_properties(plan, seat, "/tmp/cluster"))
        assert config.is_member == (not plan.is_one_process)
        assert config.log_dirs == (f"/tmp/cluster/{seat.name}",)


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_everything_is_replicated_as_far_as_there_are_brokers(
    brokers: int, copies: str, in_sync: str
) -> None:
    plan = with_ports(new_plan(ID, brokers, 0))
    stated = node_properties(plan, plan.seats[1], "/tmp/cluster")
    assert stated["default.replication.factor"] == copies
    assert stated["offsets.topic.replication.factor"] == copies
    assert stated["transaction.state.log.replication.factor"] == copies
    assert stated["min.insync.replicas"] == in_sync


def test_what_the_user_states_wins_over_the_defaults_but_not_over_what_makes_a_node() -> None:
    plan = with_ports(new_plan(ID, 3, 0)).stating({"min.insync.replicas": "1", "a.b": "c"})
    stated = node_properties(plan, plan.seats[2], "/tmp/cluster")
    assert (stated["min.insync.replicas"], stated["a.b"]) == ("1", "c")
    for name in DECIDED_HERE:
        with pytest.raises(PlanError, match=name):
            check_stated({name: "x"})


def test_all_listen_on_this_machine_only() -> None:
    plan = with_ports(new_plan(ID, 3, 2))
    for seat in plan.seats.values():
        listeners = node_properties(plan, seat, "/tmp/cluster")["listeners"].split(",")
        assert all("://127.0.0.1:" in each for each in listeners)


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20)


@given(st.dictionaries(TEXTS.filter(str.strip), TEXTS))
def test_a_properties_file_reads_as_what_was_written(stated: dict[str, str]) -> None:
    assert parse_properties(properties_text(stated)) == stated


@given(st.integers(1, 50), st.integers(0, 7), st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_the_plan_reads_as_what_was_kept(
    brokers: int, controllers: int, stated: dict[str, str]
) -> None:
    plan = with_ports(new_plan(ID, brokers, controllers, ["ä", "b"])).stating(stated)
    assert plan_from_json(plan_to_json(plan)) == plan


def damaged(**changes: object) -> bytes:
    value = json.loads(plan_to_json(new_plan(ID, 2, 0)))
    for name, content in changes.items():
        value[name] = content
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        damaged(version=2),
        damaged(nodes=[]),
        damaged(nodes=[1]),
        damaged(nodes=[None] * 3),
        damaged(next_id=0),
        damaged(next_id=True),
        damaged(cluster_id=5),
        damaged(cluster_id="x" * 5000),
        damaged(stated={"a": 1}),
        damaged(stated=[]),
    ],
)
def test_a_damaged_file_is_refused_with_a_reason(content: bytes) -> None:
    with pytest.raises(PlanError):
        plan_from_json(content)


def test_a_file_in_which_two_nodes_are_one_is_refused() -> None:
    nodes = [Seat(1, True, True)._asdict()] * 2
    with pytest.raises(PlanError, match="same id"):
        plan_from_json(damaged(nodes=nodes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"next_id": 2}, "next_id"),
        ({"cluster_id": "\ud800"}, "'cluster_id' is not text"),
        ({"stated": {"a": "\ud800"}}, "'a' is not text"),
        ({"stated": {"\ud800": "a"}}, "is not UTF-8 text"),
        ({"stated": {"log.dirs": "/"}}, "log.dirs cannot be set"),
    ],
)
def test_a_file_that_would_fail_later_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        plan_from_json(damaged(**changes))


def test_a_file_in_which_two_listeners_have_one_port_is_refused() -> None:
    nodes = [Seat(1, True, True, port=14007, controller_port=14007)._asdict()]
    with pytest.raises(PlanError, match="same port"):
        plan_from_json(damaged(nodes=nodes))


def test_a_property_that_is_no_text_is_refused() -> None:
    with pytest.raises(PlanError, match="not UTF-8"):
        check_stated({"a": "\udcff"})


def test_a_broker_that_is_added_never_has_the_id_of_a_controller() -> None:
    plan = new_plan(ID, 2, 1)
    for _ in range(98):
        seat = plan.added_seat("")
        plan = plan.with_seat(seat).without(seat.node_id)
    assert plan_from_json(plan_to_json(plan)) == plan
    with pytest.raises(PlanError, match="never used twice"):
        plan.added_seat("")


def test_a_cluster_has_a_bound_of_brokers() -> None:
    with pytest.raises(PlanError, match="at most 50"):
        new_plan(ID, 50, 0).added_seat("")
