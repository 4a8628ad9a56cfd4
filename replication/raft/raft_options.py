"""Who a node of the quorum is, and its timeouts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from ...clients.kafka_uuid import ZERO_UUID, Uuid
from .voter_set import Address, KRaftVersionRange, Voter, VoterKey

KRAFT_VERSION_FEATURE = "kraft.version"
"""The feature whose level the quorum has: 1 if its voters may change, 0 if they are static."""
SUPPORTED_KRAFT_VERSIONS = KRaftVersionRange(0, 1)


@dataclass(frozen=True, slots=True)
class RaftOptions:
    """Identity, endpoints and timeouts (`controller.quorum.*`)."""

    node_id: int
    directory_id: Uuid = ZERO_UUID
    cluster_id: str = ""
    listener: str = "CONTROLLER"
    """The controller listener through which nodes reach each other."""
    endpoints: Mapping[str, Address] = field(default_factory=dict[str, Address])
    """This node's own address on each controller listener."""
    bootstrap_servers: tuple[Address, ...] = ()
    """Where to ask for the leader. Without any, the voters' addresses are used."""
    can_be_voter: bool = True
    """False in a process without the controller role: it is an observer whatever its id."""
    kraft_version_range: KRaftVersionRange = SUPPORTED_KRAFT_VERSIONS
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    fetch_timeout_spread_ms: int = 0
    """How widely the waits of followers vary around the fetch timeout; each is drawn by itself."""
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_snapshot_max_bytes: int = 1 << 20

    @property
    def key(self) -> VoterKey:
        """This node's key."""
        return VoterKey(self.node_id, self.directory_id)

    @property
    def voter(self) -> Voter:
        """This node as a voter."""
        return Voter(self.key, dict(self.endpoints), self.kraft_version_range)

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader leads without a majority that fetches."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_interval_ms(self) -> int:
        """How often a voter that does not fetch is reminded of its leader."""
        return self.fetch_timeout_ms // 2

    def fetch_deadline(self, now_ms: int, random: Random) -> int:
        """The end of a new fetch timeout.

        A leader answers all its followers when records are committed, so that their timers begin,
        and would end, in the same moment. Then each asks for votes at once and gets its own only:
        the election is lost, and takes one or two seconds more. Kafka's followers wait equally
        long. The waits are as often shorter as longer: a voter that has a leader refuses the first
        who asks, so that one that always waited longer would win each election against Kafka's.
        """
        spread_ms = self.fetch_timeout_spread_ms
        drawn_ms = random.randrange(spread_ms) - spread_ms // 2 if spread_ms else 0
        return now_ms + self.fetch_timeout_ms + drawn_ms
