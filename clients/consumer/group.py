"""A consumer's group membership (`ConsumerCoordinator` in Kafka, the classic protocol).

The member joins, the group leader assigns partitions (range), all members sync, and from then on
each sends heartbeats, whose responses announce the next rebalance. A member that the coordinator
has removed joins again as a new member.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from struct import Struct as Format
from typing import NamedTuple, TypeVar

from ..errors import ErrorCode, KafkaError
from ..network.coordinator_lookup import GroupCoordinatorClient
from ..network.metadata import Metadata
from ..protocol.codec import decode, encode_bytes
from ..protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition as AssignedTopic,
)
from ..protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ..protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ..protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ..protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ..protocol.schema import Message, version_range
from ..topic_partition import TopicPartition
from .assignor import RANGE, assign_ranges

M = TypeVar("M", bound=Message)

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
_PROTOCOL_VERSION = 1
_JOIN_MARGIN_MS = 5_000
_VERSION = Format(">h")

_MEMBERSHIP_LOST = frozenset(
    (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of a group member, under Kafka's names."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000


class Generation(NamedTuple):
    """The group generation that this member belongs to, and its member id."""

    generation_id: int = NO_GENERATION
    member_id: str = ""
    protocol: str | None = None


class GroupMember:
    """One group member; the consumer's `poll` drives it, and a task sends its heartbeats."""

    def __init__(
        self, config: GroupConfig, coordinator: GroupCoordinatorClient, metadata: Metadata
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._metadata = metadata
        self.generation = Generation()
        # Whether the next poll must join: before the first join, at a rebalance, after removal.
        self.must_join = True
        self.trouble: KafkaError | None = None
        """What keeps it from joining, though it tries again; None if nothing does."""

    async def join(self, topics: Collection[str]) -> list[TopicPartition]:
        """Join the next generation; returns this member's partitions.

        Retries without limit; the caller must set a timeout. Raises a non-retriable `KafkaError`.
        """
        failures = 0
        while True:
            try:
                partitions = await self._join_once(topics)
            except KafkaError as error:
                if not self._mends(error):
                    raise
                is_first_answer = error.code is ErrorCode.MEMBER_ID_REQUIRED
                failures = 0 if is_first_answer else failures + 1
                self.trouble = None if is_first_answer else error
            else:
                self.trouble = None
                return partitions
            await self._coordinator.pause(failures)

    async def _join_once(self, topics: Collection[str]) -> list[TopicPartition]:
        config = self._config
        subscription = ConsumerProtocolSubscription(topics=sorted(topics))
        response = await self._coordinator.ask(
            JoinGroupRequest(
                group_id=config.group_id,
                session_timeout_ms=config.session_timeout_ms,
                rebalance_timeout_ms=config.max_poll_interval_ms,
                member_id=self.generation.member_id,
                group_instance_id=config.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[
                    JoinGroupRequestProtocol(name=RANGE, metadata=_with_version(subscription))
                ],
            ),
            JoinGroupResponse,
            timeout_ms=config.max_poll_interval_ms + _JOIN_MARGIN_MS,
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=response.member_id)
        self._coordinator.raise_for(response.error_code, "The coordinator refused JoinGroup.")
        self.generation = Generation(
            response.generation_id, response.member_id, response.protocol_name
        )
        assignments: list[SyncGroupRequestAssignment] = []
        if response.leader == response.member_id and not response.skip_assignment:
            assignments = await self._assign(response)
        synced = await self._coordinator.ask(
            SyncGroupRequest(
                group_id=config.group_id,
                generation_id=self.generation.generation_id,
                member_id=self.generation.member_id,
                group_instance_id=config.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=self.generation.protocol,
                assignments=assignments,
            ),
            SyncGroupResponse,
            timeout_ms=config.max_poll_interval_ms + _JOIN_MARGIN_MS,
        )
        self._coordinator.raise_for(synced.error_code, "The coordinator refused SyncGroup.")
        self.must_join = False
        return partitions_of(synced.assignment)

    async def _assign(self, response: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        subscriptions = {
            member.member_id: _versioned_decode(
                ConsumerProtocolSubscription, member.metadata
            ).topics
            for member in response.members
        }
        topics = {topic for subscribed in subscriptions.values() for topic in subscribed}
        await self._metadata.ensure(topics)
        counts = {
            topic: len(self._metadata.topics[topic].partitions)
            for topic in topics
            if topic in self._metadata.topics
        }
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment_of(partitions))
            for member_id, partitions in assign_ranges(subscriptions, counts).items()
        ]

    async def heartbeats(self) -> None:
        """Send heartbeats forever; a rebalance or a fatal error sets `must_join`."""
        while True:
            await asyncio.sleep(self._config.heartbeat_interval_ms / 1000)
            if self.must_join:
                continue
            generation = self.generation
            try:
                response = await self._coordinator.ask(
                    HeartbeatRequest(
                        group_id=self._config.group_id,
                        generation_id=generation.generation_id,
                        member_id=generation.member_id,
                        group_instance_id=self._config.group_instance_id,
                    ),
                    HeartbeatResponse,
                    timeout_ms=self._config.session_timeout_ms,
                )
                self._coordinator.raise_for(
                    response.error_code, "The coordinator refused Heartbeat."
                )
            except KafkaError as error:
                # Not raised here: the next poll joins again, and raises the error if that fails.
                if generation == self.generation and not self._mends(error):
                    self.must_join = True

    async def leave(self) -> None:
        """Leave the group; static members stay in it (KIP-345)."""
        member_id = self.generation.member_id
        self.generation, self.must_join = Generation(), True
        if not member_id or self._config.group_instance_id is not None:
            return
        response = await self._coordinator.ask(
            LeaveGroupRequest(
                group_id=self._config.group_id, members=[MemberIdentity(member_id=member_id)]
            ),
            LeaveGroupResponse,
        )
        self._coordinator.raise_for(response.error_code, "The coordinator refused LeaveGroup.")

    def _mends(self, error: KafkaError) -> bool:
        """Update the membership after an error; returns whether joining again may resolve it."""
        self._coordinator.note(error)
        code = error.code
        if code in _MEMBERSHIP_LOST:
            member_id = self.generation.member_id
            self.generation = Generation(
                member_id=member_id if code is ErrorCode.ILLEGAL_GENERATION else ""
            )
        if code in _MEMBERSHIP_LOST or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.must_join = True
            return True
        return error.is_retriable or code is ErrorCode.MEMBER_ID_REQUIRED


def _with_version(message: Message) -> bytes:
    """A message of the consumer protocol, prefixed with its version."""
    return _VERSION.pack(_PROTOCOL_VERSION) + encode_bytes(message, _PROTOCOL_VERSION)


def _versioned_decode(cls: type[M], data: bytes) -> M:
    """Decode a message of the consumer protocol.

    A version that is not known yet is decoded as the newest known one.
    """
    if len(data) < _VERSION.size:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "A member's metadata is too short.")
    (version,) = _VERSION.unpack_from(data)
    newest = version_range(cls.versions).highest
    message, _ = decode(cls, min(version, newest), memoryview(data), _VERSION.size)
    return message


def _assignment_of(partitions: list[TopicPartition]) -> bytes:
    topics: dict[str, AssignedTopic] = {}
    for name, number in partitions:
        topics.setdefault(name, AssignedTopic(topic=name, partitions=[])).partitions.append(number)
    return _with_version(ConsumerProtocolAssignment(assigned_partitions=list(topics.values())))


def partitions_of(assignment: bytes) -> list[TopicPartition]:
    """The partitions of a member's assignment in the protocol type `consumer`."""
    if not assignment:
        return []
    decoded = _versioned_decode(ConsumerProtocolAssignment, assignment)
    return [
        TopicPartition(topic.topic, number)
        for topic in decoded.assigned_partitions
        for number in topic.partitions
    ]
