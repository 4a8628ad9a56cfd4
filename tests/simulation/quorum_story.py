"""A quorum of 1, 3 or 5 voters and up to 3 observers, under everything that can happen to it.

A story is told by its seed alone. Some virtual seconds of faults come first: kills that lose what
was not synced, pauses, cut links, lost connections, bad disks, leaping clocks, resignations and
graceful stops, while whoever leads writes and some take snapshots. `quorum_invariants.py` watches
every event. Then everything heals, and within `HEALED_MS` there must be one leader whose writes all
nodes commit, and the same log and the same state on all of them.

In some stories the voters change meanwhile (`quorum_admin.py`). In others the nodes are controllers
and the observers are brokers, which register, heartbeat, die and return (`controller_cluster.py`);
they heal when all brokers are unfenced, and a topic can be created.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.voter_set import NO_VOTERS, Address, Voter, VoterKey, VoterSet

from .controller_cluster import SimulatedCluster
from .controller_node import SimulatedController
from .quorum_admin import VoterAdmin
from .quorum_faults import FAULTS
from .quorum_invariants import Invariants
from .quorum_log import LISTENER
from .quorum_network import PORT, EventQueue, QuorumNetwork, Weather
from .quorum_node import QuorumNode
from .quorum_world import World

HEALED_MS = 20_000
"""How long a healed quorum may take, in virtual time, until all have committed all."""

BROKERS_HEALED_MS = 45_000
"""How long until all brokers are unfenced, after sessions of dead ones have expired in turn."""

OBSERVER_IDS = 100
SPARE_IDS = 10
SNAPSHOT_CHUNK_BYTES = 16
EVENTS_MAX = 400_000

RARE = (
    "truncated",
    "snapshot loaded",
    "unsynced tail lost",
    "late request",
    "duplicated response",
    "slow flush",
    "slow quorum-state",
    "full disk in append",
    "full disk in quorum-state",
    "failed flush",
    "failed quorum-state",
    "pre-vote not known",
    "voters recorded",
    "voter add answered",
    "voter remove answered",
    "voter update answered",
    "voter change refused",
    "leader removed",
    "removed leader has left",
    "controller claimed",
    "controller renounced",
    "change refused at renounce",
    "registration refused as a duplicate",
    "clean registration",
    "unclean registration",
    "broker becomes fenced",
    "broker becomes controlled shutdown",
    "controlled shutdown",
    "broker unregistered",
    "late request to the controller",
    "AlterPartition NONE",
    "AlterPartition INELIGIBLE_REPLICA",
    "AlterPartition INVALID_UPDATE_VERSION",
    "AlterPartition FENCED_LEADER_EPOCH",
    "partition without leader",
    "leader from the ELR",
    "unclean leader",
    "creation TOPIC_ALREADY_EXISTS",
    "producer ids allocated",
)
"""Things that must happen somewhere in a small set of seeds."""

CHANGING_VOTERS = 0.3
"""The share of the stories in which the voters change."""
WITH_CONTROLLERS = 0.3
"""The share of the stories with controllers and brokers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a story is like."""

    seed: int
    voters: int
    observers: int
    chaos_ms: float = 20_000
    fault_every_ms: float = 700
    write_every_ms: float = 120
    has_directories: bool = False
    has_old_voter: bool = False
    """One voter does not know pre-votes."""
    spares: int = 0
    """Nodes that may become voters."""
    changes_voters: bool = False
    has_controllers: bool = False
    """The nodes keep the state of a cluster, and the observers are its brokers."""
    has_elr: bool = False
    """Partitions have eligible leader replicas (KIP-966)."""
    core: type[RaftCore] = RaftCore


def plan_of(seed: int, core: type[RaftCore] = RaftCore) -> Plan:
    """The plan of a seed: small and large quorums, calm and wild ones."""
    chance = random.Random(f"plan {seed}")
    changes_voters = random.Random(f"voters {seed}").random() < CHANGING_VOTERS
    has_controllers = random.Random(f"controllers {seed}").random() < WITH_CONTROLLERS
    return Plan(
        seed,
        voters=chance.choice((1, 3, 3, 3) if has_controllers else (1, 3, 3, 3, 5, 5)),
        observers=chance.choice((2, 3, 4) if has_controllers else (0, 0, 1, 3)),
        chaos_ms=chance.choice((20_000, 30_000) if has_controllers else (10_000, 20_000, 40_000)),
        fault_every_ms=chance.choice((200, 600, 1500, 4000)),
        write_every_ms=chance.choice((40, 120, 400)),
        has_directories=chance.random() < 0.5 or changes_voters,
        has_old_voter=chance.random() < 0.1,
        core=core,
        spares=2 if changes_voters else 0,
        changes_voters=changes_voters,
        has_controllers=has_controllers,
        has_elr=has_controllers and chance.random() < 0.5,
    )


@dataclass(slots=True)
class Figures:
    """What happened in stories."""

    stories: int = 0
    virtual_s: float = 0.0
    events: int = 0
    elections: int = 0
    committed: int = 0
    slowest_healing_ms: float = 0.0
    cpu_s: float = 0.0
    """The processor time that they took."""
    counts: Counter[str] = field(default_factory=Counter[str])

    def add(self, story: "Story") -> None:
        """Add those of one story."""
        self.stories += 1
        self.virtual_s += story.queue.now / 1000
        self.events += story.queue.events
        self.elections += story.invariants.elections
        self.committed += story.invariants.committed_end
        self.slowest_healing_ms = max(self.slowest_healing_ms, story.healing_ms)
        self.counts += story.counts

    def merge(self, other: "Figures") -> None:
        """Add those of other stories."""
        self.stories += other.stories
        self.virtual_s += other.virtual_s
        self.events += other.events
        self.elections += other.elections
        self.committed += other.committed
        self.slowest_healing_ms = max(self.slowest_healing_ms, other.slowest_healing_ms)
        self.cpu_s += other.cpu_s
        self.counts += other.counts

    @property
    def missing(self) -> list[str]:
        """The rare branches that no story has hit."""
        return [name for name in RARE if not self.counts[name]]

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {self.counts[name]}" for name in FAULTS)
        missing = self.missing
        never = f" (not: {', '.join(missing)})" if missing else ""
        return (
            f"{self.stories} seeds, {self.virtual_s:.0f} s of virtual time, {self.events} events, "
            f"{self.elections} elections, {self.committed} records committed, healed within "
            f"{self.slowest_healing_ms:.0f} ms; faults: {faults}; "
            f"{len(RARE) - len(missing)} of {len(RARE)} rare branches{never}"
        )


class Story:
    """See the module."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed)
        self.queue = EventQueue()
        self.counts: Counter[str] = Counter()
        self.network = QuorumNetwork(self.queue, self.chance, self.counts)
        self.nodes: list[QuorumNode] = []
        self.invariants = Invariants(self.nodes, self.counts)
        self.world = World(
            self.queue, self.network, self.chance, self.counts, self.invariants, plan.core
        )
        if plan.has_controllers:
            self.world.machine = lambda node: SimulatedController(
                node, self.queue, self.counts, has_elr=plan.has_elr
            )
        voter_set = VoterSet(
            Voter(_key(node_id, plan), {LISTENER: _address(node_id)})
            for node_id in range(1, plan.voters + 1)
        )
        ids = [*voter_set.ids, *range(SPARE_IDS, SPARE_IDS + plan.spares)]
        ids += range(OBSERVER_IDS, OBSERVER_IDS + plan.observers)
        self.nodes += [self._node(node_id, voter_set) for node_id in ids]
        self.voters = self.nodes[: plan.voters]
        self.voters[0].knows_pre_vote = not plan.has_old_voter
        self.admin = VoterAdmin(self)
        self.cluster = SimulatedCluster(self) if plan.has_controllers else None
        if self.cluster is not None:
            self.invariants.on_committed = self.cluster.rules.on_committed
        self.written = 0
        self.disks = 0
        self.healing_ms = 0.0
        self.is_chaotic = False

    def _node(self, node_id: int, voter_set: VoterSet) -> QuorumNode:
        options = RaftOptions(
            node_id=node_id,
            directory_id=_key(node_id, self.plan).directory_id,
            cluster_id="a cluster",
            listener=LISTENER,
            endpoints={LISTENER: _address(node_id)},
            bootstrap_servers=tuple(
                _address(voter_id)
                for voter_id in (*voter_set.ids, *range(SPARE_IDS, SPARE_IDS + self.plan.spares))
            ),
            can_be_voter=node_id < OBSERVER_IDS,
            fetch_snapshot_max_bytes=1000 if self.plan.has_controllers else SNAPSHOT_CHUNK_BYTES,
        )
        is_formatted_later = self.plan.changes_voters and node_id not in voter_set.ids
        return QuorumNode(self.world, options, NO_VOTERS if is_formatted_later else voter_set)

    def run(self) -> None:
        """Faults, then healing; whatever goes wrong names the seed and the time."""
        try:
            self.begin()
            self.be_chaotic(self.plan.chaos_ms)
            self.heal()
        except BaseException as error:
            error.add_note(f"quorum simulated with {self.plan}, at {self.queue.now:.3f} ms")
            raise

    def begin(self) -> None:
        """Start all nodes, and let whoever leads write."""
        for node in self.nodes:
            self.queue.after(self.chance.uniform(0, 50), node.start_if_dead)
        if self.cluster is not None:
            self.cluster.begin()
        self._write_now_and_then()

    def node(self, node_id: int) -> QuorumNode:
        """The node of an id."""
        return next(node for node in self.nodes if node.id == node_id)

    def run_for(self, duration_ms: float) -> None:
        """Let time pass."""
        self._run_until(self.queue.now + duration_ms, lambda: False)

    def run_until(self, is_so: Callable[[], bool], within_ms: float, what: str) -> float:
        """Let time pass until something is so, and tell how long it took."""
        began = self.queue.now
        assert self._run_until(began + within_ms, is_so), f"not within {within_ms} ms: {what}"
        return self.queue.now - began

    def _run_until(self, end_ms: float, is_so: Callable[[], bool]) -> bool:
        is_over = self.queue.run_until(end_ms, is_so)
        assert self.queue.events < EVENTS_MAX, "events without end"
        return is_over

    @property
    def leaders(self) -> list[QuorumNode]:
        """The nodes that believe that they lead."""
        return [node for node in self.nodes if node.is_leading]

    @property
    def leader(self) -> QuorumNode | None:
        """The node that leads the highest epoch."""
        return max(self.leaders, key=lambda node: node.persisted.epoch, default=None)

    def elect(self, within_ms: float = 15_000) -> QuorumNode:
        """Let time pass until a leader has committed something of its epoch."""

        def is_elected() -> bool:
            leader = self.leader
            return leader is not None and (leader.high_watermark or 0) > 0

        self.run_until(is_elected, within_ms, "a leader that commits")
        leader = self.leader
        assert leader is not None
        return leader

    def write(self, node: QuorumNode) -> None:
        """Let a node append data, if it believes that it leads."""
        self.written += 1
        node.append(b"change %d" % self.written, self.chance.randint(1, 3))

    def _write_now_and_then(self) -> None:
        leaders = self.leaders
        if leaders and self.cluster is None:
            self.write(self.chance.choice(leaders))
        if self.chance.random() < 0.1:
            node = self.chance.choice(self.nodes)
            node.take_snapshot(trims=self.chance.random() < 0.7)
        every = self.plan.write_every_ms
        self.queue.after(self.chance.uniform(0, 2 * every), self._write_now_and_then)

    def be_chaotic(self, duration_ms: float) -> None:
        """Let faults happen for a while."""
        self.is_chaotic = True
        self.network.weather = Weather(
            latency_ms_max=self.chance.choice((2, 20, 200)),
            duplicate_responses=self.chance.choice((0, 0.05)),
            slow_messages=self.chance.choice((0, 0.01, 0.05)),
        )
        self._fault_now_and_then()
        if self.plan.changes_voters:
            self.admin.change_now_and_then()
        self.run_for(duration_ms)
        self.is_chaotic = False

    def _fault_now_and_then(self) -> None:
        if not self.is_chaotic:
            return
        name = self.chance.choice(list(FAULTS))
        node = self.chance.choice(self.nodes)
        leader = self.leader
        if leader is not None and self.chance.random() < 0.4:
            node = leader
        if FAULTS[name](self, node):
            self.counts[name] += 1
        every = self.plan.fault_every_ms
        self.queue.after(self.chance.uniform(0, 2 * every), self._fault_now_and_then)

    def restart_later(self, node: QuorumNode) -> None:
        """Start a node again after a while."""
        delay = self.chance.choice((10, 300, 3000, 9000))
        self.queue.after(self.chance.uniform(0, delay), node.start_if_dead)

    def heal(self) -> None:
        """End all faults; then all commit the same within `HEALED_MS`."""
        began = self.queue.now
        self.network.weather = Weather()
        self.network.heal()
        for node in self.nodes:
            node.disk.recover()
            node.start_if_dead()
        target = self.invariants.committed_end

        def is_healed() -> bool:
            return (self.leader is not None) and all(
                (node.high_watermark or 0) > target for node in self.nodes
            )

        self.run_until(is_healed, HEALED_MS, f"all commit more than {target}")
        # Nodes that a fault ends only now, or a stop that was under way, start once more.
        for node in self.nodes:
            node.start_if_dead()
        if self.cluster is not None:
            self.cluster.heal(BROKERS_HEALED_MS)
        self.run_until(self.is_quiet, HEALED_MS, "all have all, in one epoch")
        self.healing_ms = self.queue.now - began
        first = self.nodes[0]
        for node in self.nodes:
            assert node.voters_in_force.keys == first.voters_in_force.keys, "voters differ"
            same = node.applied != first.applied or node.machine.state == first.machine.state
            assert same, f"nodes {first.id} and {node.id} end with different states"

    def is_quiet(self) -> bool:
        """Whether all follow one leader and have committed what it has."""
        leader = self.leader
        if leader is None or len(self.leaders) > 1:
            return False
        end = leader.high_watermark
        return all(
            node.core is not None
            and node.core.epoch == leader.persisted.epoch
            and node.high_watermark == end
            for node in self.nodes
        )


def _address(node_id: int) -> Address:
    return Address(f"node{node_id}", PORT)


def _key(node_id: int, plan: Plan) -> VoterKey:
    directory = Uuid(bytes(14) + bytes((7, node_id))) if plan.has_directories else ZERO_UUID
    return VoterKey(node_id, directory)
