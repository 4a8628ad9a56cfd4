"""The members of a classic group: by id, by instance id, pending members, and the leader.

Pure bookkeeping for the state machine of `classic_group.py`; based on Kafka's ClassicGroup and
ClassicGroupMember. Invariants: each instance id maps to a member of the group; the leader, if there
is one, is a member; a pending member is not a member yet.
"""

from dataclasses import dataclass

from ...clients.errors import ErrorCode
from ..group_actions import GroupProtocol, JoinedMember, MemberIdentity, Waiter


@dataclass(slots=True)
class ClassicMember:
    """One member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    assignment: bytes = b""
    # Whether the member's first JoinGroup is unanswered, so that its client cannot heartbeat yet.
    is_new: bool = False
    join_waiter: Waiter | None = None
    sync_waiter: Waiter | None = None

    @property
    def outlives_session(self) -> bool:
        """Whether a parked request keeps the member alive.

        A new member's request doesn't, because its client may be gone.
        """
        parked = self.join_waiter is not None or self.sync_waiter is not None
        return parked and not self.is_new

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for a protocol; empty if it does not support the protocol."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""


class GroupMembers:
    """The members of one group, in the order in which they joined."""

    def __init__(self) -> None:
        self.by_id: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}
        # Ids assigned to members (KIP-394) that must rejoin within the session timeout.
        self.pending_joins: set[str] = set()
        # Members that have joined the generation and must sync within the rebalance timeout.
        self.pending_syncs: set[str] = set()
        self.leader_id: str | None = None

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.by_id

    def add(self, member: ClassicMember) -> None:
        """Add a member. The first one becomes the leader."""
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids
            self.static_ids[member.instance_id] = member.member_id
        self.by_id[member.member_id] = member
        self.pending_joins.discard(member.member_id)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or pending member. If it leads, the first remaining one leads next."""
        member = self.by_id.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.by_id), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        return member

    def replace_static(
        self, instance_id: str, new_member_id: str
    ) -> tuple[ClassicMember, ClassicMember]:
        """Assign an instance id to a new member, which inherits all but the parked requests.

        Returns the old and the new member. The old id is fenced from now on.
        """
        old = self.by_id.pop(self.static_ids[instance_id])
        new = ClassicMember(
            new_member_id,
            instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        self.by_id[new_member_id] = new
        self.static_ids[instance_id] = new_member_id
        self.pending_syncs.discard(old.member_id)
        if self.leader_id == old.member_id:
            self.leader_id = new_member_id
        return old, new

    def check(self, identity: MemberIdentity) -> ErrorCode:
        """Check the member of a request: NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if identity.instance_id is not None:
            owner = self.static_ids.get(identity.instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != identity.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if identity.member_id not in self.by_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_ms for member in self.by_id.values()), default=0)

    @property
    def awaiting_join(self) -> int:
        return sum(member.join_waiter is not None for member in self.by_id.values())

    @property
    def all_joined(self) -> bool:
        return not self.pending_joins and all(
            member.join_waiter is not None for member in self.by_id.values()
        )

    def missing_dynamic(self) -> list[ClassicMember]:
        """The members that have not rejoined and are not static."""
        return [
            member
            for member in self.by_id.values()
            if member.join_waiter is None and member.instance_id is None
        ]

    def elect_joined_leader(self) -> bool:
        """Replace a leader that has not rejoined; False if no member has rejoined."""
        if self.leader_id is None:
            return False
        if self.by_id[self.leader_id].join_waiter is not None:
            return True
        for member in self.by_id.values():
            if member.join_waiter is not None:
                self.leader_id = member.member_id
                return True
        return False

    def common_protocols(self) -> set[str]:
        """The protocols that every member supports."""
        common: set[str] | None = None
        for member in self.by_id.values():
            names = {protocol.name for protocol in member.protocols}
            common = names if common is None else common & names
        return common or set()

    def select_protocol(self) -> str:
        """Return the protocol with the most votes.

        Each member votes for the first of its protocols that all members support.
        """
        candidates = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.by_id.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def as_joined(self, protocol_name: str | None) -> tuple[JoinedMember, ...]:
        """The members as listed for the leader in its JoinGroup response."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol_name))
            for member in self.by_id.values()
        )
