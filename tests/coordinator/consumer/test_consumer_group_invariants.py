"""Whatever members do: no partition is had twice, and the log tells all of it."""

from typing import NamedTuple

from hypothesis import example, given, settings, strategies as st

from tierlog.clients.errors import KafkaError
from tierlog.coordinator.consumer.consumer_group import ConsumerGroupState
from tierlog.coordinator.consumer.consumer_records import by_topic
from tierlog.coordinator.consumer.topic_partitions import Partition
from tierlog.coordinator.group_config import ConsumerGroupConfig

from ..consumer_group_driver import GROUP, ConsumerGroupDriver
from .folded_group import folded, state_of

NAMES = ["anna", "bert", "cleo"]
TOPICS = {"red": 3, "rose": 1, "blue": 2}
FEWER_TOPICS = {"red": 2, "blue": 2}


class Deed(NamedTuple):
    """What somebody does."""

    kind: str
    name: str
    number: int


deeds = st.builds(
    Deed,
    st.sampled_from(
        [
            "join",
            "join",
            "static",
            "beat",
            "beat",
            "beat",
            "beat",
            "silent",
            "lost",
            "leave",
            "rest",
            "subscribe",
            "regex",
            "look",
            "time",
            "topics",
        ]
    ),
    st.sampled_from(NAMES),
    st.integers(0, 9),
)


class Walk:
    """A group, and clients that may lose answers and take their time."""

    def __init__(self) -> None:
        settings = ConsumerGroupConfig(assignment_interval_ms=1_000)
        self.groups = ConsumerGroupDriver(TOPICS, settings)

    def do(self, deed: Deed) -> None:
        try:
            self._do(deed)
        except KafkaError:
            # Refused, as who has been fenced: it lets go of everything before it comes back.
            self.groups.owned.pop(deed.name, None)
            self.groups.epochs.pop(deed.name, None)
        self.check()

    def _do(self, deed: Deed) -> None:
        groups, name = self.groups, deed.name
        knows_group = GROUP in groups.shard.consumer_groups
        match deed.kind:
            case "join":
                groups.owned.pop(name, None)
                groups.join(name, topics=[("red",), ("red", "blue"), ("blue",)][deed.number % 3])
            case "static":
                groups.owned.pop(name, None)
                groups.join_static(f"instance {deed.number % 2}", name)
            case "look":
                groups.look_up()
            case "time":
                groups.pass_time([500, 1_000, 5_000, 20_000, 46_000][deed.number % 5])
            case "topics":
                groups.change_topics([TOPICS, FEWER_TOPICS][deed.number % 2])
            case _ if knows_group:
                self._speak(deed)
            case _:
                pass

    def _speak(self, deed: Deed) -> None:
        groups, name = self.groups, deed.name
        match deed.kind:
            case "beat":
                groups.beat(name)
            case "silent":
                groups.beat(name, owned=None)
            case "lost":
                # The answer is lost: the client goes on with what it had.
                groups.send(groups.living(name))
            case "leave":
                groups.leave(name)
            case "rest":
                groups.leave(name, -2)
            case "subscribe":
                names = [("red",), ("blue",), ("red", "blue"), ()][deed.number % 4]
                groups.beat(name, subscribed_topic_names=names)
            case _:
                pattern = ["r.*", "b.*", "", "(r|b).*"][deed.number % 4]
                groups.beat(name, subscribed_topic_regex=pattern)

    def check(self) -> None:
        group = self.groups.shard.consumer_groups.get(GROUP)
        if group is None:
            return
        holders = self.groups.holders()
        for partition, member_id in holders.items():
            assert group.is_held(partition), member_id
        readers: dict[Partition, str] = {}
        for name, owned in self.groups.owned.items():
            member = group.members.get(name)
            if member is None:
                # Fenced, and will hear of it at its next heartbeat at the latest.
                continue
            for partition in owned & (
                member.current.assigned.keys() | member.current.revoking.keys()
            ):
                assert readers.setdefault(partition, name) == name

    def _join_again(self, name: str, instance_id: str | None) -> None:
        if instance_id is None:
            self.groups.join(name)
        else:
            self.groups.leave(name, -2)
            self.groups.join_static(instance_id, name)

    def _all_of_it(self, name: str) -> dict[str, object]:
        """What a client adds when the answer before was lost: only then is it told all again."""
        member = self.groups.group.members[name].metadata
        return {
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "subscribed_topic_names": member.subscribed_topic_names,
        }

    def end(self) -> None:
        """Everyone speaks until nothing moves: all of the topics is shared, and once."""
        groups = self.groups
        group = groups.shard.consumer_groups.get(GROUP)
        if group is None:
            return
        for turn in range(12):
            groups.pass_time(1_000)
            for name in list(group.members):
                try:
                    groups.beat(name, **({} if turn else self._all_of_it(name)))
                except KafkaError:
                    groups.owned.pop(name, None)
                    groups.epochs.pop(name, None)
                    self._join_again(name, group.members[name].instance_id)
        resting = [each for each in group.members.values() if each.epoch == -2]
        if group.members and not resting:
            assert group.state is ConsumerGroupState.STABLE
            topics = group.subscribed_topics() & set(groups.image.topics_by_name)
            wanted = {
                (groups.image.topics_by_name[topic].topic_id, number)
                for topic in topics
                for number in groups.image.topics_by_name[topic].partitions
            }
            assert set(groups.holders()) == wanted, by_topic(wanted)


LOST_REVOCATION = [
    Deed("join", "bert", 0),
    Deed("join", "anna", 0),
    Deed("time", "anna", 0),
    Deed("time", "anna", 0),
    Deed("lost", "bert", 0),
]


@settings(max_examples=250, deadline=None)
@given(st.lists(deeds, max_size=40))
@example(LOST_REVOCATION)
def test_a_walk_keeps_the_invariants_and_its_log_tells_all_of_it(walk: list[Deed]) -> None:
    context = Walk()
    for deed in walk:
        context.do(deed)
    again = folded(context.groups.log).consumer_groups.get(GROUP)
    assert state_of(again) == state_of(context.groups.shard.consumer_groups.get(GROUP))
    context.end()
    again = folded(context.groups.log).consumer_groups.get(GROUP)
    assert state_of(again) == state_of(context.groups.shard.consumer_groups.get(GROUP))
