"""Shared by tests: members of the classic protocol, whose requests go to both clusters."""

import struct
from collections.abc import Sequence

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.heartbeat import HeartbeatRequest
from tierlog.clients.protocol.messages.join_group import JoinGroupRequestProtocol
from tierlog.clients.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tierlog.clients.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

from .side_by_side import Plain
from .twins import TOPIC, Ask, Side, Twins


def topic_partitions(numbers: Sequence[int]) -> bytes:
    name = TOPIC.encode()
    listed = struct.pack(">i", len(numbers)) + b"".join(struct.pack(">i", n) for n in numbers)
    return struct.pack(">ih", 1, len(name)) + name + listed


def subscription(owned: Sequence[int] = ()) -> bytes:
    """A consumer's wish for the topic, version 1: with what it has (KIP-429)."""
    name = TOPIC.encode()
    wanted = struct.pack(">hih", 1, 1, len(name)) + name + struct.pack(">i", -1)
    return wanted + (topic_partitions(owned) if owned else struct.pack(">i", 0))


def assignment(numbers: Sequence[int]) -> bytes:
    return struct.pack(">h", 1) + topic_partitions(numbers) + struct.pack(">i", -1)


class ClassicMember:
    """A member of the classic protocol, with the generation that it was told last."""

    def __init__(self, twins: Twins, group: str, name: str, instance: str | None = None) -> None:
        self.twins = twins
        self.group = group
        self.name = name
        self.instance = instance
        self.generation = -1

    def join(self, owned: Sequence[int] = (), **changes: object) -> Plain:
        stated: dict[str, object] = {
            "group_id": self.group,
            "group_instance_id": self.instance,
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription(owned))],
        }
        answer = self.twins.join(self.name, 5, **{**stated, **changes})
        assert isinstance(answer, dict)
        generation = answer["generation_id"]
        if not answer["error_code"] and isinstance(generation, int):
            self.generation = generation
        return answer["error_code"]

    def sync(self, given: Sequence[int] | None = None, generation: int | None = None) -> Plain:
        """What it is told; `given` is what it assigns to itself if it leads."""
        number = self.generation if generation is None else generation

        def ask(side: Side) -> SyncGroupRequest:
            member_id = side.id_of(self.name)
            assigned = [] if given is None else [assignment(given)]
            return SyncGroupRequest(
                group_id=self.group,
                generation_id=number,
                member_id=member_id,
                group_instance_id=self.instance,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member_id, assignment=each)
                    for each in assigned
                ],
            )

        return self.twins.same(ask, 3)

    def heartbeat(self, generation: int | None = None, name: str | None = None) -> Plain:
        number = self.generation if generation is None else generation
        answer = self.twins.same(
            lambda side: HeartbeatRequest(
                group_id=self.group,
                generation_id=number,
                member_id=side.id_of(name or self.name),
                group_instance_id=self.instance,
            ),
            3,
        )
        assert isinstance(answer, dict)
        return answer["error_code"]

    def leave(self) -> Plain:
        return self.twins.same(leaving(self.group, self.name, self.instance), 3)


def leaving(group: str, name: str, instance: str | None = None) -> Ask:
    return lambda side: LeaveGroupRequest(
        group_id=group,
        members=[MemberIdentity(member_id=side.id_of(name), group_instance_id=instance)],
    )


def classic_group(twins: Twins, group: str, name: str) -> ClassicMember:
    """A classic group of one, who has both partitions."""
    member = ClassicMember(twins, group, name)
    assert member.join() == ErrorCode.MEMBER_ID_REQUIRED
    assert member.join() == ErrorCode.NONE
    member.sync([0, 1])
    return member


def kept_of(member: ClassicMember) -> list[int]:
    """What a member of the classic protocol is told that it has."""
    answer = member.sync()
    assert isinstance(answer, dict)
    data = answer["assignment"]
    assert isinstance(data, bytes)
    start = len(struct.pack(">hih", 1, 1, 0)) + len(TOPIC)
    (count,) = struct.unpack_from(">i", data, start)
    return list(struct.unpack_from(f">{count}i", data, start + 4))
