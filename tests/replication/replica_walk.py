"""A random walk of three replicas over one tier: elections, crashes, copies and deletions.

Two kinds of walk. In a *clean* one a leader comes from the in-sync replicas, and no more than one
replica at a time is down: then nothing that was below a high watermark may ever be lost. In an
*unclean* one any replica may lead at any time with whatever it has, so records are lost, but no
replica may ever serve anything else than its leader's history.
"""

import random
from dataclasses import replace

from tierlog.replication.follower.fetch_state import FetchState
from tierlog.replication.follower.follower_asks import FollowerOptions
from tierlog.storage.remote.remote_lineage import remote_log_start_offset
from tierlog.storage.remote.remote_segment import RemoteLogSegmentState
from tierlog.tests.replication.tiered_consumer import whole_log
from tierlog.tests.replication.tiered_replicas import BACKOFF_MS, ReplicaGroup, ReplicaNode
from tierlog.tests.simulation.disk import Survival

PRODUCER_ID = 7
NODES = (1, 2, 3)
STATE = RemoteLogSegmentState


class ReplicaWalk:
    """See the top of this file."""

    def __init__(self, seed: int, *, is_clean: bool) -> None:
        self.chance = random.Random(f"{seed}/{is_clean}")
        self.is_clean = is_clean
        options = FollowerOptions(BACKOFF_MS, fetches_last_tiered=self.chance.random() < 0.3)
        self.group = ReplicaGroup(NODES, options=options)
        self.untold: set[int] = set()
        self.committed: dict[int, int] = {}
        """In a clean walk: the leader epoch of each record that was below a high watermark."""
        self.did: list[str] = []
        self.lead(1)

    @property
    def nodes(self) -> dict[int, ReplicaNode]:
        return self.group.nodes

    @property
    def leader(self) -> ReplicaNode | None:
        leader = self.group.leader
        return leader if leader is not None and leader.is_up else None

    @property
    def up(self) -> list[ReplicaNode]:
        return [node for node in self.nodes.values() if node.is_up]

    @property
    def followers(self) -> list[ReplicaNode]:
        return [node for node in self.up if node is not self.group.leader]

    @property
    def isr(self) -> tuple[int, ...]:
        return self.group.image.isr

    def set_isr(self, isr: tuple[int, ...]) -> None:
        image = self.group.image
        self.group.image = replace(image, isr=isr, partition_epoch=image.partition_epoch + 1)
        leader = self.leader
        if leader is not None:
            leader.partition.update(self.group.image)
            leader.partition.maybe_increment_high_watermark(self.group.now_ms)

    def run(self, steps: int) -> None:
        """So many events; afterwards everybody comes back and catches up."""
        try:
            for _ in range(steps):
                event = self.chance.choice(EVENTS) if self.up else "start"
                self.did.append(event)
                getattr(self, event)()
                self.note_committed()
            self.settle()
        except Exception as error:
            error.add_note(f"after {self.did[-30:]}")
            raise

    def lead(self, node_id: int) -> None:
        """A leader in the next epoch; the others hear of it at once, or later."""
        isr: tuple[int, ...] = (node_id,)
        if self.is_clean and self.group.image.leader >= 0:
            isr = tuple(each for each in self.isr if self.nodes[each].is_up)
        others = [node for node in self.up if node.node_id != node_id]
        late = [node for node in others if self.chance.random() < 0.5]
        for node in late:
            node.is_up = False
        leader = self.group.elect(node_id, isr)
        for node in late:
            node.is_up = True
            self.untold.add(node.node_id)
        self.untold.discard(node_id)
        self.find_log_start(leader)

    def find_log_start(self, node: ReplicaNode) -> None:
        """What the copy task of a new leader does first."""
        log, remote = node.log, self.group.metadata.log
        if log.log_start_offset < log.local_log_start_offset:
            history = log.leader_epochs.entries
            start = remote_log_start_offset(remote, history, log.local_log_start_offset)
            log.maybe_increment_log_start_offset(min(start, log.local_log_start_offset))
        node.learn_copied_offset()

    def elect(self) -> None:
        candidates = [node.node_id for node in self.up]
        if self.is_clean:
            candidates = [each for each in candidates if each in self.isr]
        if candidates and self.chance.random() < 0.3:
            self.lead(self.chance.choice(candidates))

    def notify(self) -> None:
        for node_id in list(self.untold):
            if self.chance.random() < 0.5:
                self.untold.discard(node_id)
                if self.nodes[node_id].is_up:
                    self.group.notify(self.nodes[node_id])

    def produce(self) -> None:
        leader = self.leader
        if leader is not None:
            # A producer numbers its records on: not so where records were lost.
            entry = leader.log.producers.get(PRODUCER_ID)
            sequence = 0 if entry is None else entry.last_sequence + 1
            producer_id = PRODUCER_ID if self.is_clean else -1
            leader.produce(self.chance.randint(1, 3), producer_id, sequence)

    def follow(self) -> None:
        for node in self.followers:
            for _ in range(self.chance.randint(0, 8)):
                self.group.fetch_bytes = self.chance.choice((1, 200, 1 << 20))
                node.step()
            self.maybe_join(node)
        self.group.now_ms += self.chance.choice((0, 0, BACKOFF_MS))

    def maybe_join(self, node: ReplicaNode) -> None:
        leader = self.leader
        if leader is None or node.node_id in self.isr or node.node_id in self.untold:
            return
        followed = node.followed
        is_following = followed.state is FetchState.FETCHING and followed.lag is not None
        if is_following and node.log.log_end_offset >= leader.log.log_end_offset:
            # The leader sees how far it is by its next fetch.
            node.step()
            self.set_isr((*self.isr, node.node_id))

    def roll(self) -> None:
        self.chance.choice(self.up).roll() if self.up else None

    def copy(self) -> None:
        leader = self.leader
        if leader is not None and not self.group.tier.is_down:
            leader.copy()

    def expire(self) -> None:
        for node in self.up:
            if self.chance.random() < 0.5:
                node.expire_local(self.chance.randint(0, node.log.log_end_offset))

    def delete_records(self) -> None:
        leader = self.leader
        if leader is not None and self.chance.random() < 0.2:
            log = leader.log
            log.maybe_increment_log_start_offset(
                self.chance.randint(log.log_start_offset, log.high_watermark)
            )
            remote = self.group.metadata.log
            for segment in remote.segments():
                is_done = segment.state is STATE.COPY_SEGMENT_FINISHED
                if is_done and segment.end_offset < log.log_start_offset:
                    self.group.move(segment, STATE.DELETE_SEGMENT_STARTED)
                    self.group.move(segment, STATE.DELETE_SEGMENT_FINISHED)
                    del self.group.tier.segments[segment.id]

    def fail_tier(self) -> None:
        self.group.tier.is_down = self.chance.random() < 0.4

    def housekeeping(self) -> None:
        for node in self.up:
            if self.chance.random() < 0.5:
                node.log.flush()
            if self.chance.random() < 0.5:
                node.checkpoint()

    def crash(self) -> None:
        if not self.up or (self.is_clean and len(self.up) < len(NODES)):
            return
        node = self.chance.choice(self.up)
        if self.is_clean and self.isr == (node.node_id,):
            return
        survival = self.chance.choice((Survival.NOTHING, Survival.BY_CHANCE, Survival.EVERYTHING))
        node.crash(survival, self.chance.randint(0, 1000))
        self.left(node)

    def stop(self) -> None:
        if len(self.up) == len(NODES):
            node = self.chance.choice(self.up)
            if not (self.is_clean and self.isr == (node.node_id,)):
                node.stop()
                self.left(node)

    def left(self, node: ReplicaNode) -> None:
        self.set_isr(tuple(each for each in self.isr if each != node.node_id) or self.isr)
        if self.group.image.leader == node.node_id:
            heirs = [
                each.node_id for each in self.up if each.node_id in self.isr or not self.is_clean
            ]
            if heirs:
                self.lead(self.chance.choice(heirs))

    def start(self) -> None:
        for node in self.nodes.values():
            if not node.is_up and self.chance.random() < 0.6:
                self.come_back(node)

    def come_back(self, node: ReplicaNode) -> None:
        node.start()
        if self.group.image.leader == node.node_id:
            # A restart is a new term.
            self.lead(node.node_id)
        else:
            self.group.notify(node)

    def reimage(self) -> None:
        node = self.chance.choice(list(self.nodes.values()))
        is_leader = self.group.image.leader == node.node_id
        if node.is_up and not is_leader and node.node_id not in self.isr:
            node.reimage()

    def note_committed(self) -> None:
        leader = self.leader
        if not self.is_clean or leader is None:
            return
        log = leader.log
        for offset, epoch in leader.local.items():
            if log.log_start_offset <= offset < log.high_watermark:
                assert self.committed.setdefault(offset, epoch) == epoch, (
                    "a committed record changed"
                )

    def settle(self) -> None:
        """All come back, the tier too, and each becomes like the leader."""
        self.did.append("settle")
        self.group.tier.is_down = False
        self.group.fetch_bytes = 1 << 20
        for node in self.nodes.values():
            if not node.is_up:
                self.come_back(node)
        if self.leader is None:
            self.lead(self.up[0].node_id)
        leader = self.group.leader
        assert leader is not None
        self.find_log_start(leader)
        for node in self.followers:
            self.group.notify(node)
            node.catch_up()
            self.fetch_log_start(node, leader.log.log_start_offset)
            # A leader that is none any more may have deleted what this replica still hopes for.
            self.find_log_start(node)
            self.check_like_leader(node, leader)
        self.set_isr(tuple(self.nodes))
        records = whole_log(leader)
        for offset, epoch in self.committed.items():
            if offset >= leader.log.log_start_offset:
                assert records.get(offset) == epoch, f"the committed record {offset} is lost"

    def fetch_log_start(self, node: ReplicaNode, offset: int) -> None:
        node.fetch_until(lambda: node.log.log_start_offset >= offset)

    def check_like_leader(self, node: ReplicaNode, leader: ReplicaNode) -> None:
        ours, its = whole_log(node), whole_log(leader)
        start = max(node.log.log_start_offset, leader.log.log_start_offset)
        assert {offset: epoch for offset, epoch in ours.items() if offset >= start} == {
            offset: epoch for offset, epoch in its.items() if offset >= start
        }
        assert list(its) == list(range(leader.log.log_start_offset, leader.log.log_end_offset))
        if self.is_clean and leader.log.log_start_offset == 0:
            # Of producers whose records are deleted a new replica learns nothing.
            mine, theirs = (each.log.producers.get(PRODUCER_ID) for each in (node, leader))
            assert (mine and mine.last_sequence) == (theirs and theirs.last_sequence)


EVENTS = (
    *["produce", "follow"] * 6,
    *["roll", "copy", "expire", "notify"] * 3,
    *["housekeeping", "start"] * 2,
    "crash",
    "stop",
    "elect",
    "reimage",
    "fail_tier",
    "delete_records",
)
