"""Plays members, timers, topics and the log to the groups of one partition, in virtual time.

    groups = ConsumerGroupDriver({"red": 3})
    groups.join("anna")                 # founds the group and is given all of it
    groups.join("bert")                 # is given nothing yet
    groups.beat("anna")                 # is told to give up one partition, and does at the next
    groups.pass_time(45_000)            # who has not been heard of is out

Every change is written to `log` and folded, as the coordinator would. A member says in each
heartbeat what it was told last, unless it is told to say something else.
"""

from collections.abc import Iterable, Mapping, Sequence

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.coordinator.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from tierlog.coordinator.consumer.consumer_group_update import GroupChange, GroupContext
from tierlog.coordinator.consumer.consumer_heartbeat import (
    ConsumerHeartbeat,
    HeartbeatAnswer,
    check_request,
)
from tierlog.coordinator.consumer.metadata_hash import MetadataHashes
from tierlog.coordinator.consumer.regex_lookup import RegexLookup
from tierlog.coordinator.consumer.shard_entries import ShardEntry
from tierlog.coordinator.consumer.topic_partitions import NOTHING, Partition, Partitions
from tierlog.coordinator.group.group_shard import GroupShard
from tierlog.coordinator.group_actions import (
    Action,
    CancelTimer,
    CompleteJoin,
    CompleteSync,
    JoinResult,
    SetTimer,
    StoreGroup,
    SyncResult,
    TimerKey,
    Waiter,
)
from tierlog.coordinator.group_config import ConsumerGroupConfig, GroupCoordinatorConfig
from tierlog.coordinator.group_records import GroupEntry
from tierlog.replication.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage

GROUP = "group"
SESSION_MS = 45_000
REBALANCE_MS = 60_000
CONFIG = GroupCoordinatorConfig()
# Without this, a change within a second of the last would wait for a later heartbeat.
AT_ONCE = ConsumerGroupConfig(assignment_interval_ms=0)


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"."))


def image_of(topics: Mapping[str, int], version: int = 0) -> ClusterImage:
    """A cluster with these topics and their numbers of partitions."""
    partition = PartitionImage((0,), (0,), 0, 0, 0)
    images = [
        TopicImage(name, topic_id(name), dict.fromkeys(range(count), partition))
        for name, count in topics.items()
    ]
    return ClusterImage(
        "cluster",
        offset=version,
        topics_by_name={image.name: image for image in images},
        topics_by_id={image.topic_id: image for image in images},
    )


def parts(name: str, *numbers: int) -> Partitions:
    return frozenset((topic_id(name), number) for number in numbers)


class ConsumerGroupDriver:
    """The groups of one shard and the world around them."""

    def __init__(
        self,
        topics: Mapping[str, int],
        settings: ConsumerGroupConfig = AT_ONCE,
        config: GroupCoordinatorConfig = CONFIG,
    ) -> None:
        self.now_ms = 1_000_000
        self.image = image_of(topics)
        self.new_topics_version = 0
        self.settings = settings
        self.config = config
        self.shard = GroupShard(0, 0, config)
        self.log: list[ShardEntry] = []
        self.timers: dict[TimerKey, int] = {}
        self.lookups: dict[str, frozenset[str]] = {}
        # What each member was told last: its epoch and what it may use.
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, Partitions] = {}
        self.answers: list[HeartbeatAnswer] = []
        # What was answered to classic members.
        self.joins: dict[Waiter, JoinResult] = {}
        self.syncs: dict[Waiter, SyncResult] = {}
        self._hashes = MetadataHashes()

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.consumer_groups.get(GROUP)
        assert group is not None
        return group

    def is_in(self, state: ConsumerGroupState) -> bool:
        return self.group.state is state

    def context(self) -> GroupContext:
        return GroupContext(
            self.image,
            self.new_topics_version,
            self.config,
            self.settings,
            self._hashes,
            self.now_ms,
        )

    # Members.

    def send(self, request: ConsumerHeartbeat) -> HeartbeatAnswer:
        """One request, as it is; raises what it is refused for."""
        check_request(request, False, self.context())
        change, answer = self.shard.consumer_heartbeat(request, self.context())
        self.carry_out(request.group_id, change)
        self.answers.append(answer)
        return answer

    def joining(
        self, name: str, topics: Sequence[str] | None = ("red",), regex: str | None = None
    ) -> ConsumerHeartbeat:
        """The first request of a member, who draws its id: its name."""
        return ConsumerHeartbeat(
            GROUP,
            name,
            0,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=None if topics is None else tuple(topics),
            subscribed_topic_regex=regex,
            owned=NOTHING,
            client_id=name,
            client_host="/127.0.0.1",
        )

    def join(
        self, name: str, topics: Sequence[str] | None = ("red",), regex: str | None = None
    ) -> HeartbeatAnswer:
        return self._last_answers(self.send(self.joining(name, topics, regex)))

    def join_static(
        self, instance_id: str, member_id: str, topics: Sequence[str] = ("red",)
    ) -> HeartbeatAnswer:
        request = self.joining(member_id, topics)._replace(instance_id=instance_id)
        return self._last_answers(self.send(request))

    def living(self, name: str) -> ConsumerHeartbeat:
        """What a member says while nothing of it changes: what it owns."""
        member = self.group.members.get(name)
        return ConsumerHeartbeat(
            GROUP,
            name,
            self.epochs.get(name, 1),
            None if member is None else member.instance_id,
            owned=self.owned.get(name, NOTHING),
            client_id=name,
            client_host="/127.0.0.1",
        )

    def beat(self, name: str, **changes: object) -> HeartbeatAnswer:
        """A heartbeat that says what the member has, and what else it is told to say."""
        return self._last_answers(self.send(self.living(name)._replace(**changes)))  # type: ignore[arg-type]  # plain fields

    def leave(self, name: str, epoch: int = -1) -> HeartbeatAnswer:
        answer = self.send(self.living(name)._replace(member_epoch=epoch, owned=None))
        self.epochs.pop(name, None)
        self.owned.pop(name, None)
        return answer

    def settle(self, *names: str) -> None:
        """Let the members beat until nothing moves any more."""
        for _ in range(6):
            for name in names:
                self.beat(name)

    def _last_answers(self, answer: HeartbeatAnswer) -> HeartbeatAnswer:
        self.epochs[answer.member_id] = answer.member_epoch
        if answer.assigned is not None:
            self.owned[answer.member_id] = frozenset(answer.assigned)
        return answer

    # The world.

    def change_topics(self, topics: Mapping[str, int]) -> None:
        """Topics come, go or change."""
        before = self.image.topics_by_name
        self.image = image_of(topics, self.image.offset + 1)
        now = self.image.topics_by_name
        if now.keys() - before.keys():
            self.new_topics_version = self.image.offset
        changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
        self.shard.consumer_groups.topics_changed(changed)

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass and timers run out, in order."""
        end_ms = self.now_ms + duration_ms
        while True:
            due = [(at_ms, key) for key, at_ms in self.timers.items() if at_ms <= end_ms]
            if not due:
                break
            self.now_ms, key = min(due, key=lambda each: each[0])
            del self.timers[key]
            self._expire(key)
        self.now_ms = end_ms

    def _expire(self, key: TimerKey) -> None:
        classic = self.shard.groups.get(key.group_id)
        if classic is not None:
            self.carry_out_actions(classic.expired(key, self.now_ms))
            return
        change = self.shard.consumer_groups.expired(key, self.context())
        self.carry_out(key.group_id, change)

    def look_up(self) -> None:
        """Find out what patterns stand for, where that was asked."""
        for group_id, regexes in list(self.lookups.items()):
            del self.lookups[group_id]
            lookup = RegexLookup(regexes, self.image)
            while not lookup.is_done_after_next():
                pass
            found = lookup.result(self.now_ms)
            change = self.shard.consumer_groups.resolved(group_id, found, self.context())
            self.carry_out(group_id, change)

    def carry_out(self, group_id: str, change: GroupChange) -> None:
        self.log.extend(change.entries)
        self.carry_out_actions(self.shard.converted(group_id, change, self.now_ms))
        if change.unresolved:
            self.lookups.setdefault(group_id, change.unresolved)

    def carry_out_actions(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case SetTimer(key, delay_ms, unless_set):
                    if not unless_set or key not in self.timers:
                        self.timers[key] = self.now_ms + delay_ms
                case CancelTimer(key):
                    self.timers.pop(key, None)
                case CompleteJoin(waiter, result):
                    self.joins[waiter] = result
                case CompleteSync(waiter, result):
                    self.syncs[waiter] = result
                case StoreGroup(snapshot, sequel):
                    self.log.append(GroupEntry(snapshot.group_id, snapshot))
                    classic = self.shard.groups.get(snapshot.group_id)
                    if classic is not None and sequel is not None:
                        stored = classic.stored(sequel, ErrorCode.NONE, self.now_ms)
                        self.carry_out_actions(stored)

    # What is to hold.

    def written(self, since: int = 0) -> list[str]:
        """The kinds of records that were written since then, tombstones marked."""
        return [
            type(entry).__name__.removesuffix("Entry") + ("" if _says_something(entry) else "-")
            for entry in self.log[since:]
        ]

    def holders(self) -> dict[Partition, str]:
        """Who holds which partition; nobody else may."""
        holders: dict[Partition, str] = {}
        for member_id, member in self.group.members.items():
            for partition in (*member.current.assigned, *member.current.revoking):
                assert holders.setdefault(partition, member_id) == member_id
        return holders


def _says_something(entry: ShardEntry) -> bool:
    return entry[-1] is not None and entry[-1] is not True
