"""Three whole brokers, their clients, and everything that can happen to them; told by one seed.

Each broker is a controller, too: the production code from the listener to the disk, in virtual
time. Some seconds of faults come first (`cluster_faults.py`), while clients write and read. Then
everything heals, and within `HEALED_S` all replicas are in sync; what `cluster_truth.py` knows of
the disks must agree with all that clients were promised.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.simulation.cluster_admin import ARCHIVE, ClusterAdmin
from tierlog.tests.simulation.cluster_clients import Client, LoadingProducer, Promises
from tierlog.tests.simulation.cluster_copier import Copier
from tierlog.tests.simulation.cluster_copies import ClusterCopies
from tierlog.tests.simulation.cluster_invariants import ClusterInvariants
from tierlog.tests.simulation.cluster_member import IDS, TIER_PROPERTIES, Member
from tierlog.tests.simulation.cluster_network import ClusterLoop, ClusterNetwork
from tierlog.tests.simulation.cluster_operator import ClusterOperator
from tierlog.tests.simulation.cluster_readers import GroupReader, GroupTruth, LedLog
from tierlog.tests.simulation.cluster_truth import ClusterTruth
from tierlog.tests.simulation.disk import UNLIMITED_BYTES, Survival
from tierlog.tests.simulation.loop import running
from tierlog.tests.simulation.network import is_alive, on_host
from tierlog.tests.simulation.object_store import SimulatedPool, SimulatedStore, Weather, register

from .cluster_faults import ALL_FAULTS, CLIENT, FAULTS, FAULTS_WITH_TIER
from .cluster_tier import check_tier

HEALED_S = 60.0
"""How long a healed cluster may take, in virtual time, until all replicas are in sync."""
STARTED_S = 30.0
LOOK_EVERY_S = 0.1

RARE = (
    "ended by itself",
    "clean stop ended",
    "offset committed",
    "transactions committed",
    "transactions aborted",
    "created",
    "deleted",
    "reassigned",
    "elected",
    "configured",
    "objects in the tier",
    "local log start moved",
    "copier REQUEST_TIMED_OUT",
    "not reassigned: UNKNOWN_TOPIC_OR_PARTITION",
    "not created: TOPIC_ALREADY_EXISTS",
    "several leader epochs",
    "truncated",
    "ISR expanded",
    "ISR shrunk",
)
"""What must happen somewhere in a small set of seeds."""
CONTROLLED_SHUTDOWN_S = 9.0
"""A stop that takes longer has given up on the controller."""
WATCH_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Plan:
    """What a story is like."""

    seed: int
    chaos_s: float = 12.0
    fault_every_s: float = 1.0
    has_admin: bool = True
    has_old_copier: bool = False
    has_tier: bool = False
    readers: int = 1
    is_synced: bool = False
    """Each append is synced before it is acknowledged: any number of brokers may lose power."""


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    chance = random.Random(f"cluster {seed}")
    return Plan(
        seed,
        chaos_s=chance.choice((4.0, 8.0, 12.0)),
        fault_every_s=chance.choice((0.4, 0.8, 1.5)),
        is_synced=chance.random() < 0.3,
        has_admin=chance.random() < 0.7,
        has_old_copier=chance.random() < 0.4,
        readers=chance.choice((0, 1, 2)),
        has_tier=chance.random() < 0.4,
    )


class _Unexpected(logging.Handler):
    """Keeps what the code under test logs with a traceback: nobody has expected it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # What a dead process still does in its clean-up, nobody sees.
        if record.exc_info and is_alive():
            self.errors.append(self.format(record))


@contextmanager
def unexpected_errors() -> Generator[list[str], None, None]:
    """What is logged with a traceback meanwhile; nothing reaches the screen."""
    logger, handler = logging.getLogger("tierlog"), _Unexpected()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield handler.errors
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class ClusterStory:
    """See the module."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = ClusterLoop(plan.seed)
        self.chance = random.Random(f"story {plan.seed}")
        self.counts: Counter[str] = Counter()
        self.promises = Promises(counts=self.counts)
        self.healing_s = 0.0
        self.members: list[Member] = []
        self.healing_since_s = 0.0
        self.looks = 0
        self.violation: BaseException | None = None
        self.group = GroupTruth()
        self.tier: SimulatedStore | None = None
        if plan.has_tier:
            register()
            self.tier = SimulatedStore(self.loop, f"cluster-{plan.seed}")
        self.copies: ClusterCopies | None = None
        self.is_chaotic = True
        self._lost_power: Member | None = None

    def run(self) -> None:
        """Faults, then healing; whatever goes wrong names the seed and the time."""
        with running(self.loop) as loop, unexpected_errors() as errors:
            try:
                loop.run_until_complete(self._run())
                assert not errors, f"logged: {errors[0]}"
            except BaseException as error:
                error.add_note(f"cluster simulated with {self.plan}, at {loop.time():.6f} s")
                raise
            finally:
                for member in self.members:
                    if member.is_running:
                        self._kill(member, Survival.EVERYTHING)

    async def _run(self) -> None:
        self.network = ClusterNetwork(self.loop)
        properties = {"log.flush.interval.messages": "1"} if self.plan.is_synced else {}
        if self.tier is not None:
            properties |= {**TIER_PROPERTIES, "rsm.config.url": self.tier.url}
        self.members = [Member(self.loop, self.network, each, properties) for each in IDS]
        self.truth = ClusterTruth(self.members, self.promises)
        self.invariants = ClusterInvariants(self.members, self.truth)
        if self.tier is not None:
            self.copies = ClusterCopies(self.members, self.truth, self.tier)
            self.tier.on_removal = self.copies.forget_whole
            self.tier.on_put = self._on_put
        self.group.check_read = self.invariants.check_read
        self.group.coordinator_log = self._coordinator_log
        self.promises.on_acknowledged = self._on_acknowledged
        watch = self.loop.create_task(self._watch())
        watch.add_done_callback(self._on_watched)
        for member in self.members:
            member.on_end = self._on_end
            if self.tier is not None:
                member.pools = partial(SimulatedPool, self.tier)
            member.begin()
        await self.until(lambda: all(each.is_serving for each in self.members), STARTED_S, "start")
        await self._be_chaotic_with_clients()
        await self.until(self.truth.is_healed, HEALED_S, "all replicas are in sync")
        self.healing_s = self.loop.time() - self.healing_since_s
        self._operator.is_over = True
        await self._operating
        # The tier goes on: look when nothing is on its way to a replica.
        await self.until(self.truth.is_healed, HEALED_S, "all replicas are in sync again")
        self.truth.check_end()
        self.look()
        if self.tier is not None:
            await check_tier(self, self.tier)
        values = self.truth.written_values(TopicPartition("orders", 0))
        for offset, value in self.group.seen.items():
            assert values[offset] == value, f"{value!r} was read at {offset}"

    def _coordinator_log(self) -> LedLog | None:
        name = TopicPartition("__consumer_offsets", 0)
        image = self.truth.image
        partition = image.partition(*name) if image else None
        leader = next(
            (each for each in self.members if partition and each.id == partition.leader), None
        )
        replica = self.truth.replica(leader, name) if leader else None
        if replica is None or not replica.is_leader:
            return None
        log = replica.log
        return LedLog(replica.node_id, replica.leader_epoch, log.log_end_offset, log.high_watermark)

    def _on_watched(self, watch: "asyncio.Task[None]") -> None:
        if not watch.cancelled():
            self.violation = self.violation or watch.exception()

    def _on_acknowledged(self, name: TopicPartition, offset: int) -> None:
        try:
            self.invariants.check_acknowledged(name, offset)
        except AssertionError as error:
            self.violation = self.violation or error

    def _on_put(self, key: str) -> None:
        try:
            if self.copies is not None:
                self.copies.check_put(key)
        except AssertionError as error:
            self.violation = self.violation or error

    def look(self) -> None:
        """Check what must always hold; `check_committed` less often."""
        self.invariants.check()
        self.looks += 1
        if self.looks % 20 == 0:
            self.invariants.check_committed()
        if self.copies is not None and self.looks % 10 == 0:
            self.copies.check()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            self.look()

    async def _be_chaotic_with_clients(self) -> None:
        with on_host(CLIENT):
            admin = ClusterAdmin(self.loop, self.promises, has_tier=self.plan.has_tier)
            await admin.create_first()
            copier = Copier(self.loop, self.promises, is_old=self.plan.has_old_copier)
            clients: list[Client] = [copier, admin] if self.plan.has_admin else [copier]
            orders = [TopicPartition("orders", 0)]
            clients += [LoadingProducer(self.loop, f"p{i}", orders, self.promises) for i in (0, 1)]
            if self.tier is not None:
                clients.append(LoadingProducer(self.loop, "archivist", [ARCHIVE], self.promises))
            clients += [
                GroupReader(self.loop, f"r{i}", self.group, self.promises)
                for i in range(self.plan.readers)
            ]
            tasks = [self.loop.create_task(each.run()) for each in clients]
        if self.tier is not None:
            await self.until(self._has_moved, STARTED_S, "a log begins in the tier")
        await self._be_chaotic()
        self.healing_since_s = self.loop.time()
        self._heal()
        with on_host(CLIENT):
            self._operator = ClusterOperator(self.loop, self.truth)
            self._operating = self.loop.create_task(self._operator.run())
        for each in clients:
            each.is_over = True
        await self.until(lambda: all(each.done() for each in tasks), HEALED_S, "clients end")
        for task in tasks:
            task.result()

    def _has_moved(self) -> bool:
        """Whether a part of a log is only in the tier."""
        logs = [self.truth.replica(each, ARCHIVE) for each in self.members]
        return any(each is not None and each.log.local_log_start_offset > 0 for each in logs)

    async def until(self, is_so: "Callable[[], bool]", within_s: float, what: str) -> None:
        """Let time pass until something is so."""
        until = self.loop.time() + within_s
        while not is_so():
            if self.violation is not None:
                raise self.violation
            assert self.loop.time() < until, f"not within {within_s} s: {what}\n{self.describe()}"
            await asyncio.sleep(LOOK_EVERY_S)

    def describe(self) -> str:
        """The state of the cluster, for a person."""
        lines: list[str] = []
        for member in self.members:
            image = member.controller.image if member.controller else None
            state = "serving" if member.is_serving else "running" if member.is_running else "down"
            lines.append(
                f"broker {member.id}: {state}, life {member.starts} {member.why_ended}"
                f" image {image.offset if image else None}"
            )
        for name, partition in self.truth.partitions():
            ends = [
                (replica.log.log_end_offset, replica.log.high_watermark, replica.leader_epoch)
                if (replica := self.truth.replica(member, name))
                else None
                for member in self.members
            ]
            lines.append(
                f"{name}: leader {partition.leader} epoch {partition.leader_epoch} isr"
                f" {partition.isr} of {partition.replicas}; ends {ends}"
            )
        return "\n".join(lines)

    async def _be_chaotic(self) -> None:
        until = self.loop.time() + self.plan.chaos_s
        names = [*FAULTS, *(FAULTS_WITH_TIER if self.tier is not None else ())]
        while self.loop.time() < until and self.violation is None:
            name, member = self.chance.choice(names), self._victim()
            if ALL_FAULTS[name](self, member):
                self.counts[name] += 1
            await asyncio.sleep(self.chance.uniform(0, 2 * self.plan.fault_every_s))

    def _victim(self) -> Member:
        """Any broker, and more often one that leads something."""
        leaders = [each.leader for _, each in self.truth.partitions() if each.leader >= 0]
        if leaders and self.chance.random() < 0.5:
            leader = self.chance.choice(leaders)
            return next(each for each in self.members if each.id == leader)
        return self.chance.choice(self.members)

    @property
    def is_careful(self) -> bool:
        """Whether another loss now would be more than the replicas can bear."""
        return self._lost_power is not None and not self.is_whole()

    def is_whole(self) -> bool:
        """Whether all serve, and all replicas are in sync."""
        if not all(each.is_serving for each in self.members):
            return False
        partitions = [partition for _, partition in self.truth.partitions()]
        return all(len(each.isr) == len(each.replicas) for each in partitions)

    def may_lose_power(self) -> bool:
        """Whether what one broker has not synced is sure to be on others, which live on."""
        return self.plan.is_synced or self.is_whole()

    def guard_after_loss(self, member: Member) -> None:
        """Spare the others until a broker that lost its power has all again."""
        self._lost_power = None if self.plan.is_synced else member

    def _kill(self, member: Member, survival: Survival) -> None:
        if member.process is not None:
            self.loop.resume(member.process)
        member.end(survival)

    def end(self, member: Member, survival: Survival, absent_s: float | None = None) -> None:
        """End a broker's process, and begin another after a while."""
        self._kill(member, survival)
        if absent_s is None:
            self._begin_later(member)
        else:
            self.loop.call_later(absent_s, member.begin)

    def _on_end(self, member: Member) -> None:
        """A process has ended by itself."""
        self.counts["ended by itself"] += 1
        self._begin_later(member)

    async def stop(self, member: Member) -> None:
        """Stop a broker cleanly, which hands over what it leads; then begin it again."""
        began = self.loop.time()
        if not await member.stop():
            return
        self.counts["clean stop ended"] += 1
        # Whom no controller lets go stops with its leaderships, at once or after a while.
        others_serve = any(each.is_serving for each in self.members)
        if others_serve and self.loop.time() - began < CONTROLLED_SHUTDOWN_S:
            self._check_handed_over(member)
        self._begin_later(member)

    def _check_handed_over(self, member: Member) -> None:
        for name, partition in self.truth.partitions():
            is_last = partition.isr == (member.id,)
            if partition.leader == member.id and not is_last:
                text = f"{name}: {member.id} has stopped cleanly, and leads {partition}"
                self.violation = self.violation or AssertionError(text)

    def _begin_later(self, member: Member) -> None:
        delay = self.chance.uniform(0, self.chance.choice((0.05, 1, 4)))
        self.loop.call_later(delay, member.begin)

    def _heal(self) -> None:
        """End all faults."""
        self.is_chaotic = False
        self.network.mend_all()
        if self.tier is not None:
            self.tier.weather = Weather()
        for member in self.members:
            member.disk.faults.clear()
            member.disk.capacity_bytes = UNLIMITED_BYTES
            if member.process is not None:
                self.loop.resume(member.process)
            member.begin()
