"""What the server-side assignors promise, whoever the members are and whatever they had before."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.coordinator.consumer.assignor_members import AssignorMember
from tierlog.coordinator.consumer.assignors import ASSIGNORS, Assignor, assign_range, assign_uniform
from tierlog.coordinator.consumer.topic_partitions import NOTHING, Partitions

TOPICS = [Uuid(bytes(15) + bytes([number])) for number in range(1, 6)]
A, B, C = TOPICS[:3]

Members = Mapping[str, AssignorMember]
Group = tuple[dict[str, AssignorMember], dict[Uuid, int]]


@st.composite
def groups(draw: st.DrawFn, same_subscription: bool | None = None) -> Group:
    """Members and topics; what they were to have is nobody's twice, but may be anything else."""
    sizes = {topic: draw(st.integers(0, 12)) for topic in TOPICS[: draw(st.integers(1, 5))]}
    names = draw(st.lists(st.text("abcd", min_size=1, max_size=3), unique=True, max_size=8))
    same = draw(st.booleans()) if same_subscription is None else same_subscription
    subscriptions = st.frozensets(st.sampled_from(sorted(sizes)))
    shared = draw(subscriptions)
    # Partitions beyond the end and topics that are gone may still be in a target.
    every = [(topic, number) for topic in TOPICS for number in range(sizes.get(topic, 0) + 2)]
    owners = [draw(st.sampled_from([*names, None])) for _ in every] if names else []
    members = {
        name: AssignorMember(
            draw(st.none() | st.just(f"instance-{name}")),
            shared if same else draw(subscriptions),
            frozenset(part for part, owner in zip(every, owners, strict=True) if owner == name),
        )
        for name in names
    }
    return members, sizes


def loads(assigned: Mapping[str, Partitions]) -> list[int]:
    return [len(partitions) for partitions in assigned.values()]


def members_of(topics: Mapping[str, frozenset[Uuid]]) -> dict[str, AssignorMember]:
    return {name: AssignorMember(None, wanted, NOTHING) for name, wanted in topics.items()}


def with_targets(members: Members, assigned: Mapping[str, Partitions]) -> dict[str, AssignorMember]:
    return {
        name: member._replace(target=assigned.get(name, NOTHING))
        for name, member in members.items()
    }


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)
@given(group=groups())
def test_every_partition_goes_once_and_only_to_a_subscriber(
    assignor: Assignor, group: Group
) -> None:
    members, sizes = group
    assigned = assignor(members, sizes)
    assert list(assigned) == list(members)
    given_out = Counter(part for partitions in assigned.values() for part in partitions)
    wanted = {topic for member in members.values() for topic in member.topic_ids}
    assert given_out == Counter((topic, n) for topic in wanted for n in range(sizes[topic]))
    for name, partitions in assigned.items():
        assert {topic for topic, _ in partitions} <= members[name].topic_ids


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)
@given(group=groups())
def test_what_is_assigned_again_stays_as_it_is(assignor: Assignor, group: Group) -> None:
    members, sizes = group
    assigned = assignor(members, sizes)
    assert assignor(with_targets(members, assigned), sizes) == assigned


@given(groups(same_subscription=True))
def test_uniform_is_even_and_moves_no_more_than_it_must(group: Group) -> None:
    members, sizes = group
    assigned = assign_uniform(members, sizes)
    if not members:
        return
    assert max(loads(assigned)) - min(loads(assigned)) <= 1
    topics = next(iter(members.values())).topic_ids
    every = sum(sizes[topic] for topic in topics)
    share, extras = divmod(every, len(members))
    had = {
        name: {part for part in member.target if part[0] in topics and part[1] < sizes[part[0]]}
        for name, member in members.items()
    }
    could_keep = sum(min(len(parts), share) for parts in had.values())
    could_keep += min(extras, sum(len(parts) > share for parts in had.values()))
    assert sum(len(had[name] & assigned[name]) for name in members) == could_keep


@given(groups(same_subscription=False))
def test_uniform_levels_the_subscribers_of_each_topic(group: Group) -> None:
    """No member has two more than another that could take over one of its partitions."""
    members, sizes = group
    assigned = assign_uniform(members, sizes)
    for giver, partitions in assigned.items():
        for topic in {topic for topic, _ in partitions}:
            for receiver, member in members.items():
                if receiver != giver and topic in member.topic_ids:
                    assert len(partitions) - len(assigned[receiver]) <= 1


@given(groups(same_subscription=True), st.text("xyz", min_size=1, max_size=3))
def test_a_newcomer_takes_only_its_share(group: Group, newcomer: str) -> None:
    members, sizes = group
    if not members:
        return
    before = assign_uniform(members, sizes)
    topics = next(iter(members.values())).topic_ids
    joined = with_targets(members, before) | {newcomer: AssignorMember(None, topics, NOTHING)}
    after = assign_uniform(joined, sizes)
    moved = sum(len(before[name] - after[name]) for name in members)
    assert moved == len(after[newcomer])


@given(groups())
def test_range_cuts_every_topic_into_stretches(group: Group) -> None:
    members, sizes = group
    assigned = assign_range(members, sizes)
    for topic, size in sizes.items():
        shares = [
            sorted(number for wanted, number in assigned[name] if wanted == topic)
            for name, member in members.items()
            if topic in member.topic_ids
        ]
        for numbers in shares:
            assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        if shares:
            lengths = list(map(len, shares))
            assert max(lengths) - min(lengths) <= 1
            assert sum(lengths) == size


def test_range_brings_partitions_of_the_same_number_together() -> None:
    both = frozenset({A, B})
    assigned = assign_range(members_of({"m": both, "n": both, "o": both}), {A: 8, B: 8})
    for partitions in assigned.values():
        numbers = {topic: sorted(n for t, n in partitions if t == topic) for topic in both}
        assert numbers[A] == numbers[B]


def test_range_puts_static_members_first_by_their_instance_ids() -> None:
    """A static member that comes back with another member id gets the same stretch."""
    topics = frozenset({A})
    members = {
        "m1": AssignorMember(None, topics, NOTHING),
        "m2": AssignorMember("z", topics, NOTHING),
        "m3": AssignorMember("y", topics, NOTHING),
    }
    assigned = assign_range(members, {A: 4})
    assert assigned["m3"] == {(A, 0), (A, 1)}
    assert assigned["m2"] == {(A, 2)}
    assert assigned["m1"] == {(A, 3)}


def test_range_orders_names_as_java_does() -> None:
    """By UTF-16 code units: what lies beyond the first plane comes before U+FFFD."""
    topics = frozenset({A})
    assigned = assign_range(members_of({"\ufffd": topics, "\U0001f388": topics}), {A: 3})
    assert assigned["\U0001f388"] == {(A, 0), (A, 1)}


def test_uniform_does_not_look_for_chains_of_exchanges() -> None:
    """Each topic's subscribers are level, so it stays at this, as in Kafka; 3, 3, 3 would do."""
    members = members_of({"m": frozenset({A}), "n": frozenset({A, B}), "o": frozenset({B, C})})
    assigned = assign_uniform(members, {A: 4, B: 4, C: 1})
    assert loads(assigned) == [2, 3, 4]
