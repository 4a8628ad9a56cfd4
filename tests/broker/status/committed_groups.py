"""Groups without members, made by the offsets that they commit."""

from collections.abc import Sequence
from functools import partial

from tierlog.tests import wire

from ...broker_process import RawClient
from ...waiting import wait_until


def commit(port: int, groups: Sequence[str], topic: str, partitions: int, offset: int = 0) -> None:
    """Commit the same offset of a topic's first partitions for each group."""
    offsets = [
        wire.OffsetCommitRequestPartition(
            partition_index=each, committed_offset=offset, committed_metadata=""
        )
        for each in range(partitions)
    ]
    topics = [wire.OffsetCommitRequestTopic(name=topic, partitions=offsets)]
    with RawClient(port) as client:

        def is_committed(group: str) -> bool:
            request = wire.OffsetCommitRequest(group_id=group, topics=topics)
            answer = client.ask(request, 8, wire.OffsetCommitResponse)
            return {each.error_code for each in answer.topics[0].partitions} == {0}

        # Makes the groups' topic.
        client.ask(
            wire.FindCoordinatorRequest(coordinator_keys=[groups[0]]),
            4,
            wire.FindCoordinatorResponse,
        )
        for group in groups:
            wait_until(partial(is_committed, group), 30, f"{group} commits")
