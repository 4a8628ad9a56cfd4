"""Shared by tests: the state of a group that its records give."""

from collections.abc import Sequence

from tierlog.clients.record.batch import RecordBatch
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.coordinator.consumer.consumer_group import ConsumerGroup
from tierlog.coordinator.consumer.shard_entries import ShardEntry, entry_record
from tierlog.coordinator.group.group_shard import GroupShard

from ..consumer_group_driver import CONFIG


def state_of(group: ConsumerGroup | None) -> tuple[object, ...]:
    """All that a group is made of, but for what is not in the log."""
    if group is None:
        return ()
    members = {
        member_id: (
            member.metadata,
            member.current._replace(
                assigned=dict(member.current.assigned), revoking=dict(member.current.revoking)
            ),
        )
        for member_id, member in group.members.items()
    }
    return (
        (group.epoch, group.metadata_hash, group.target_epoch, group.target_timestamp_ms),
        members,
        dict(group.static_members),
        dict(group.targets),
        dict(group.regexes),
        group.state,
        group.subscribed_topics(),
    )


def folded(log: Sequence[ShardEntry]) -> GroupShard:
    """What another broker makes of the log, from its bytes."""
    shard = GroupShard(0, 1, CONFIG)
    for entry in log:
        builder = RecordBatchBuilder()
        builder.append(0, *entry_record(entry))
        shard.replay(RecordBatch(memoryview(builder.build())))
    return shard
