"""The voters of the metadata quorum: their keys, their endpoints and their majorities (KIP-853).

A voter's key is its id and the id of its metadata log directory. With static voters
(`kraft.version` 0) the directory is unknown, and the id alone is the key.

Two neighbouring voter sets must share a voter in every pair of their majorities. That holds when at
most one voter is added or removed at a time.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ...clients.kafka_uuid import ZERO_UUID, Uuid


class VoterKey(NamedTuple):
    """A node id and the id of its metadata log directory (Kafka's `ReplicaKey`)."""

    id: int
    directory_id: Uuid = ZERO_UUID
    """The zero id if the directory is unknown."""

    @property
    def has_directory(self) -> bool:
        return self.directory_id != ZERO_UUID


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int


class KRaftVersionRange(NamedTuple):
    """The versions of `kraft.version` that a voter supports."""

    minimum: int = 0
    maximum: int = 0


class Voter(NamedTuple):
    """A voter: its key, its address on each controller listener, and its supported versions."""

    key: VoterKey
    endpoints: Mapping[str, Address] = MappingProxyType({})
    kraft_version: KRaftVersionRange = KRaftVersionRange()

    def is_same_voter(self, key: VoterKey) -> bool:
        """Whether the key names this voter. Without a directory on this side, the id decides."""
        if self.key.id != key.id:
            return False
        return not self.key.has_directory or self.key.directory_id == key.directory_id


class VoterSet:
    """The voters of one range of offsets. Immutable (Kafka's `VoterSet`)."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters = {voter.key.id: voter for voter in sorted(voters, key=lambda each: each.key)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return f"VoterSet({list(self._voters.values())!r})"

    def __len__(self) -> int:
        return len(self._voters)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    @property
    def ids(self) -> tuple[int, ...]:
        """The voters' ids in ascending order."""
        return tuple(self._voters)

    @property
    def keys(self) -> frozenset[VoterKey]:
        return frozenset(voter.key for voter in self)

    @property
    def has_directories(self) -> bool:
        """Whether the voters' directories are known, which `kraft.version` 1 requires."""
        return all(voter.key.has_directory for voter in self)

    @property
    def majority(self) -> int:
        """How many voters are a majority."""
        return len(self) // 2 + 1

    def voter(self, node_id: int) -> Voter | None:
        """The voter of this id."""
        return self._voters.get(node_id)

    def is_voter(self, key: VoterKey) -> bool:
        """Whether the key names one of the voters."""
        voter = self._voters.get(key.id)
        return voter is not None and voter.is_same_voter(key)

    def is_only_voter(self, key: VoterKey) -> bool:
        """Whether the key names the only voter."""
        return len(self) == 1 and self.is_voter(key)

    def address(self, node_id: int, listener: str) -> Address | None:
        """A voter's address on a listener."""
        voter = self._voters.get(node_id)
        return None if voter is None else voter.endpoints.get(listener)

    def with_voter(self, voter: Voter) -> "VoterSet | None":
        """The set with one more voter; None if its id is a voter's already."""
        return None if voter.key.id in self._voters else VoterSet((*self, voter))

    def without_voter(self, key: VoterKey) -> "VoterSet | None":
        """The set without a voter; None if the key names none of the voters, or the only one."""
        if not self.is_voter(key) or len(self) == 1:
            return None
        return VoterSet(voter for voter in self if voter.key.id != key.id)

    def needs_update(self, voter: Voter) -> bool:
        """Whether a voter of this key has other endpoints or versions here."""
        own = self._voters.get(voter.key.id)
        return own is not None and own.is_same_voter(voter.key) and own != voter

    def with_updated_voter(self, voter: Voter) -> "VoterSet | None":
        """The set with other endpoints or versions of a voter; None if its key is no voter's."""
        if not self.is_voter(voter.key):
            return None
        return VoterSet((*(each for each in self if each.key.id != voter.key.id), voter))

    def has_overlapping_majority(self, other: "VoterSet") -> bool:
        """Whether every majority of one set shares a voter with every majority of the other.

        Stricter than Kafka's method of this name, which lets one voter replace another: {1, 3} and
        {2, 4} are majorities of {1, 2, 3} and {1, 2, 4}. Kafka changes one voter at a time, too.
        """
        return len(self.keys ^ other.keys) <= 1


NO_VOTERS = VoterSet()
