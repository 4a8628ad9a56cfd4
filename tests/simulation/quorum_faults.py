"""The faults that stories of quorums are full of: each strikes one node, and ends by itself."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from tierlog.clients.kafka_uuid import Uuid

from .quorum_node import QuorumNode

if TYPE_CHECKING:
    from .quorum_story import Story


def _kill(story: "Story", node: QuorumNode) -> bool:
    if node.core is None:
        return False
    node.kill()
    story.restart_later(node)
    return True


def _kill_many(story: "Story", _: QuorumNode) -> bool:
    """All at once: what was not synced is lost everywhere."""
    if story.chance.random() < 0.7:
        return False
    for node in story.nodes:
        _kill(story, node)
    return True


def _pause(story: "Story", node: QuorumNode) -> bool:
    if node.core is None:
        return False
    node.pause(story.chance.choice((50, 1500, 2500, 6000)))
    return True


def _part(story: "Story", node: QuorumNode) -> bool:
    """Split the nodes in two, one of which has `node`."""
    others = [each for each in story.nodes if each is not node]
    side = {node, *story.chance.sample(others, story.chance.randint(0, len(others) // 2))}
    pairs = itertools.permutations(story.nodes, 2)
    _cut(story, [(one.id, other.id) for one, other in pairs if (one in side) != (other in side)])
    return True


def _cut_one_way(story: "Story", node: QuorumNode) -> bool:
    """What a node sends, or what is sent to it, does not arrive at some or all others."""
    others = [each for each in story.nodes if each is not node]
    hears_nothing = story.chance.random() < 0.5
    chosen = story.chance.sample(others, story.chance.randint(0, len(others)))
    pairs = [(each.id, node.id) if hears_nothing else (node.id, each.id) for each in chosen]
    _cut(story, pairs)
    return True


def _cut(story: "Story", links: list[tuple[int, int]]) -> None:
    """Cut links, and mend them after a while."""
    story.network.cut(*links)
    duration = story.chance.choice((100, 1000, 4000, 15_000))
    story.queue.after(story.chance.uniform(0, duration), lambda: story.network.mend(links))


def _reset(story: "Story", node: QuorumNode) -> bool:
    for other in story.nodes:
        if story.chance.random() < 0.5:
            story.network.reset(node.id, other.id)
    return True


def _fill_disk(story: "Story", node: QuorumNode) -> bool:
    """The disk is full until the process has died of it, or for a while."""
    node.disk.is_full = True
    _repair_later(story, node)
    return True


def _fail_flush(story: "Story", node: QuorumNode) -> bool:
    node.disk.fail_flush = True
    _repair_later(story, node)
    return True


def _fail_persist(story: "Story", node: QuorumNode) -> bool:
    node.disk.fail_persist = True
    _repair_later(story, node)
    return True


def _slow_flush(story: "Story", node: QuorumNode) -> bool:
    node.disk.flush_delay_ms = story.chance.choice((5, 100, 1200))
    _repair_later(story, node)
    return True


def _slow_persist(story: "Story", node: QuorumNode) -> bool:
    node.disk.persist_delay_ms = story.chance.choice((5, 100, 1200))
    _repair_later(story, node)
    return True


def _repair_later(story: "Story", node: QuorumNode) -> None:
    def repair() -> None:
        node.disk.recover()
        node.start_if_dead()

    story.queue.after(story.chance.uniform(100, 6000), repair)


def _leap(story: "Story", node: QuorumNode) -> bool:
    """The machine slept: its monotonic clock leaps. No wall clock reaches the core at all."""
    node.leap(story.chance.choice((100, 1500, 10_000, 3_600_000)))
    return True


def _resign(_: "Story", node: QuorumNode) -> bool:
    was_leading = node.is_leading
    node.resign()
    return was_leading


def _stop_gracefully(story: "Story", node: QuorumNode) -> bool:
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


def _stop_broker(story: "Story", _: QuorumNode) -> bool:
    """A broker shuts down in a controlled way, and comes back."""
    cluster = story.cluster
    return cluster is not None and any(broker.stop() for broker in cluster.brokers)


def _lose_brokers(story: "Story", _: QuorumNode) -> bool:
    """One or more brokers are gone until long after their sessions have expired."""
    if story.cluster is None:
        return False
    brokers = [broker for broker in story.cluster.brokers if broker.node.core is not None]
    for broker in story.chance.sample(brokers, min(len(brokers), story.chance.choice((1, 1, 2)))):
        broker.node.kill()
        story.queue.after(story.chance.uniform(8_000, 16_000), broker.node.start_if_dead)
    return bool(brokers)


def _replace_disk(story: "Story", _: QuorumNode) -> bool:
    """A node comes back with an empty disk and another directory id: it is no voter (KIP-853)."""
    if not story.plan.changes_voters:
        return False
    # Who heard that it leads, which it cannot know any more, would end its process.
    named = {each.persisted.leader_id for each in story.nodes}
    able = [node for node in story.nodes if node.options.can_be_voter and node.id not in named]
    able = [node for node in able if story.invariants.can_spare(node)]
    if not able:
        return False
    node = story.chance.choice(able)
    if node.core is not None:
        node.kill()
    story.invariants.on_disk_lost(node)
    story.disks += 1
    node.replace_disk(Uuid(bytes(12) + bytes((8, story.disks >> 8, story.disks & 255, node.id))))
    story.restart_later(node)
    return True


FAULTS: dict[str, Callable[["Story", QuorumNode], bool]] = {
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
    "disk replaced": _replace_disk,
    "broker stop": _stop_broker,
    "brokers gone": _lose_brokers,
}
"""By name; a fault tells whether it could strike."""
