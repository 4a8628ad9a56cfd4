"""A quorum of 1, 3 or 5 voters and up to 3 observers, under everything that can happen to it.

A story is told by its seed alone. Some virtual seconds of faults come first: kills that lose what
was not synced, pauses, cut links, lost connections, bad disks, leaping clocks, resignations and
graceful stops, while whoever leads writes and some take snapshots. `quorum_invariants.py` watches
every event. Then everything heals, and within `HEALED_MS` there must be one leader whose writes all
nodes commit, and the same log and the same state on all of them.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.voter_set import Address, Voter, VoterKey, VoterSet
from tierlog.tests.simulation.quorum_invariants import Invariants
from tierlog.tests.simulation.quorum_network import PORT, EventQueue, QuorumNetwork, Weather
from tierlog.tests.simulation.quorum_node import QuorumNode, World

HEALED_MS = 20_000
"""How long a healed quorum may take, in virtual time, until all have committed all."""

OBSERVER_IDS = 100
SNAPSHOT_CHUNK_BYTES = 16
LISTENER = "CONTROLLER"
EVENTS_MAX = 400_000


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
    core: type[RaftCore] = RaftCore


def plan_of(seed: int, core: type[RaftCore] = RaftCore) -> Plan:
    """The plan of a seed: small and large quorums, calm and wild ones."""
    chance = random.Random(f"plan {seed}")
    return Plan(
        seed,
        voters=chance.choice((1, 3, 3, 3, 5, 5)),
        observers=chance.choice((0, 0, 1, 3)),
        chaos_ms=chance.choice((10_000, 20_000, 40_000)),
        fault_every_ms=chance.choice((200, 600, 1500, 4000)),
        write_every_ms=chance.choice((40, 120, 400)),
        has_directories=chance.random() < 0.5,
        has_old_voter=chance.random() < 0.1,
        core=core,
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

    def __str__(self) -> str:
        counted = ", ".join(f"{name} {self.counts[name]}" for name in sorted(self.counts))
        return (
            f"{self.stories} seeds, {self.virtual_s:.0f} s of virtual time, {self.events} events, "
            f"{self.elections} elections, {self.committed} records committed, healed within "
            f"{self.slowest_healing_ms:.0f} ms; {counted}"
        )


class Story:
    """See the module."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed)
        self.queue = EventQueue()
        self.counts: Counter[str] = Counter()
        self.network = QuorumNetwork(self.queue, self.chance, self.counts)
        self.voters: list[QuorumNode] = []
        self.invariants = Invariants(self.voters, self.counts)
        self.world = World(
            self.queue, self.network, self.chance, self.counts, self.invariants, plan.core
        )
        voter_set = VoterSet(
            Voter(_key(node_id, plan), {LISTENER: _address(node_id)})
            for node_id in range(1, plan.voters + 1)
        )
        ids = [*voter_set.ids, *range(OBSERVER_IDS, OBSERVER_IDS + plan.observers)]
        self.nodes = [self._node(node_id, voter_set) for node_id in ids]
        self.voters += [node for node in self.nodes if node.is_voter]
        self.voters[0].knows_pre_vote = not plan.has_old_voter
        self.written = 0
        self.healing_ms = 0.0
        self.is_chaotic = False

    def _node(self, node_id: int, voter_set: VoterSet) -> QuorumNode:
        options = RaftOptions(
            node_id=node_id,
            directory_id=_key(node_id, self.plan).directory_id,
            cluster_id="a cluster",
            listener=LISTENER,
            endpoints={LISTENER: _address(node_id)},
            bootstrap_servers=tuple(_address(voter_id) for voter_id in voter_set.ids),
            can_be_voter=node_id < OBSERVER_IDS,
            fetch_snapshot_max_bytes=SNAPSHOT_CHUNK_BYTES,
        )
        return QuorumNode(self.world, options, voter_set)

    def tell(self) -> None:
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
            self.queue.after(self.chance.uniform(0, 50), partial(_start, node))
        self._write_now_and_then()

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
        if leaders:
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
        self.queue.after(self.chance.uniform(0, delay), partial(_start, node))

    def heal(self) -> None:
        """End all faults; then all commit the same within `HEALED_MS`."""
        began = self.queue.now
        self.network.weather = Weather()
        self.network.heal()
        for node in self.nodes:
            node.disk.recover()
            _start(node)
        target = self.invariants.committed_end

        def is_healed() -> bool:
            return (self.leader is not None) and all(
                (node.high_watermark or 0) > target for node in self.nodes
            )

        self.run_until(is_healed, HEALED_MS, f"all commit more than {target}")
        # Nodes that a fault ends only now, or a stop that was under way, start once more.
        for node in self.nodes:
            _start(node)
        self.run_until(self.is_quiet, HEALED_MS, "all have all, in one epoch")
        self.healing_ms = self.queue.now - began
        for node in self.nodes:
            assert node.state == self.nodes[0].state or node.applied != self.nodes[0].applied

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


def _start(node: QuorumNode) -> None:
    if node.core is None:
        node.start()


def _kill(story: Story, node: QuorumNode) -> bool:
    if node.core is None:
        return False
    node.kill()
    story.restart_later(node)
    return True


def _kill_many(story: Story, _: QuorumNode) -> bool:
    """All at once: what was not synced is lost everywhere."""
    if story.chance.random() < 0.7:
        return False
    for node in story.nodes:
        _kill(story, node)
    return True


def _pause(story: Story, node: QuorumNode) -> bool:
    if node.core is None:
        return False
    node.pause(story.chance.choice((50, 1500, 2500, 6000)))
    return True


def _part(story: Story, node: QuorumNode) -> bool:
    """Split the nodes in two, one of which has `node`."""
    others = [each for each in story.nodes if each is not node]
    side = {node, *story.chance.sample(others, story.chance.randint(0, len(others) // 2))}
    pairs = itertools.permutations(story.nodes, 2)
    _cut(story, [(one.id, other.id) for one, other in pairs if (one in side) != (other in side)])
    return True


def _cut_one_way(story: Story, node: QuorumNode) -> bool:
    """What a node sends, or what is sent to it, does not arrive at some or all others."""
    others = [each for each in story.nodes if each is not node]
    hears_nothing = story.chance.random() < 0.5
    chosen = story.chance.sample(others, story.chance.randint(0, len(others)))
    pairs = [(each.id, node.id) if hears_nothing else (node.id, each.id) for each in chosen]
    _cut(story, pairs)
    return True


def _cut(story: Story, links: list[tuple[int, int]]) -> None:
    """Cut links, and mend them after a while."""
    story.network.cut(*links)
    duration = story.chance.choice((100, 1000, 4000, 15_000))
    story.queue.after(story.chance.uniform(0, duration), lambda: story.network.mend(links))


def _reset(story: Story, node: QuorumNode) -> bool:
    for other in story.nodes:
        if story.chance.random() < 0.5:
            story.network.reset(node.id, other.id)
    return True


def _fill_disk(story: Story, node: QuorumNode) -> bool:
    """The disk is full until the process has died of it, or for a while."""
    node.disk.is_full = True
    _repair_later(story, node)
    return True


def _fail_flush(story: Story, node: QuorumNode) -> bool:
    node.disk.fail_flush = True
    _repair_later(story, node)
    return True


def _fail_persist(story: Story, node: QuorumNode) -> bool:
    node.disk.fail_persist = True
    _repair_later(story, node)
    return True


def _slow_flush(story: Story, node: QuorumNode) -> bool:
    node.disk.flush_delay_ms = story.chance.choice((5, 100, 1200))
    _repair_later(story, node)
    return True


def _slow_persist(story: Story, node: QuorumNode) -> bool:
    node.disk.persist_delay_ms = story.chance.choice((5, 100, 1200))
    _repair_later(story, node)
    return True


def _repair_later(story: Story, node: QuorumNode) -> None:
    def repair() -> None:
        node.disk.recover()
        _start(node)

    story.queue.after(story.chance.uniform(100, 6000), repair)


def _leap(story: Story, node: QuorumNode) -> bool:
    """The machine slept: its monotonic clock leaps. No wall clock reaches the core at all."""
    node.leap(story.chance.choice((100, 1500, 10_000, 3_600_000)))
    return True


def _resign(_: Story, node: QuorumNode) -> bool:
    was_leading = node.is_leading
    node.resign()
    return was_leading


def _stop_gracefully(story: Story, node: QuorumNode) -> bool:
    if node.core is None:
        return False
    life = node.life
    node.shut_down()
    began = story.queue.now

    def look() -> None:
        core = node.core
        if core is None or node.life != life:
            return
        if core.is_stopped or story.queue.now - began > 3000:
            story.counts["stopped" if core.is_stopped else "stop timed out"] += 1
            node.stop_cleanly()
            story.restart_later(node)
        else:
            story.queue.after(20, look)

    look()
    return True


FAULTS: dict[str, Callable[[Story, QuorumNode], bool]] = {
    "kill": _kill,
    "kill all": _kill_many,
    "pause": _pause,
    "partition": _part,
    "one-way cut": _cut_one_way,
    "connection reset": _reset,
    "disk full": _fill_disk,
    "flush to fail": _fail_flush,
    "quorum-state to fail": _fail_persist,
    "flush to be slow": _slow_flush,
    "quorum-state to be slow": _slow_persist,
    "clock leap": _leap,
    "resignation": _resign,
    "graceful stop": _stop_gracefully,
}
