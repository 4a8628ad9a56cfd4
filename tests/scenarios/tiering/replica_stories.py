"""KIP-405's scenarios of followers, told of three brokers that share a tier.

Records are numbered by their offsets. An epoch begins where a scenario says; where a broker dies in
it, some epochs have no record, and have other numbers than in the KIP.
"""

from collections.abc import Callable, Iterable

from tierlog.tests.waiting import wait_until

from .many_brokers import WITHIN_S, A, B, Bounds, C, ManyBrokers
from .one_broker import Seen, numbered

Story = Callable[[ManyBrokers], None]

BATCH_BYTES = 72
"""A record of these stories is a batch of so many bytes."""


def closed_bytes(records: int) -> int:
    """A local retention that keeps so many records, of segments of any size, and no more."""
    return records * BATCH_BYTES - BATCH_BYTES // 2


def _terms(many: ManyBrokers, topic: str, terms: Iterable[tuple[int, Iterable[int]]]) -> None:
    """Each leader in turn, and what it appends; the first one leads already."""
    for number, (leader, records) in enumerate(terms):
        if number:
            many.lead(topic, leader)
        many[leader].produce(topic, records, enable_idempotence=True)


def unkeyed(start: int, *values: bytes) -> list[Seen]:
    """Records without keys."""
    return [Seen(offset, b"", value) for offset, value in enumerate(values, start)]


def new_follower(many: ManyBrokers) -> None:
    """Scenario 1: epochs 0, 1, 2, 3 begin at 0, 3, 5, 7; 0 to 2 are in the tier only."""
    # Of two closed segments, the newer one stays on the disk.
    many.create("new", [C, A], per_segment=3, local_retention_bytes=closed_bytes(4))
    _terms(many, "new", [(C, range(3)), (A, range(3, 5)), (C, range(5, 7)), (A, range(7, 8))])
    many.wait_for_tier("new", [0, 3])
    many.wait_for_local("new", 3, A, C)
    epochs = {0: 0, 1: 3, 2: 5, 3: 7}
    many.wait_for_epochs("new", A, epochs)

    many.assign("new", [A, C, B])
    many.wait_until_same("new", A, B, C)
    many.expect_states_built(B, "new", at_least=1)
    assert many[B].local_starts("new")[0] == 3
    many.wait_for_epochs("new", B, epochs)
    many.expect_same_state("new", 3)

    many.lead("new", B)
    assert many[B].read("new", 0, 8) == numbered(range(8))
    assert many[B].bounds("new") == Bounds(0, 3, 8)
    # Nobody but a leader copies, and each segment is there once.
    assert many.tier_starts("new") == [0, 3]


def follower_not_far_behind(many: ManyBrokers) -> None:
    """Scenario 2.1: what the follower lacks is on the leader's disk; the tier is not read."""
    many.create("near", [A, B], per_segment=3, local_retention_bytes=closed_bytes(9))
    many[A].produce("near", range(4))
    many.kill(B, "near")
    many[A].produce("near", range(4, 10))
    many.wait_for_tier("near", [0, 3, 6])
    many.wait_for_local("near", 0, A)
    many.start(B)
    many.wait_for_isr("near", [A, B])
    many.wait_until_same("near", A, B)
    many.expect_states_built(B, "near", at_least=0, at_most=0)
    assert many[B].local_starts("near")[0] == 0


def follower_far_behind(many: ManyBrokers) -> None:
    """Scenario 2.2: the follower has 0 to 3, and the leader begins at 9."""
    many.create("far", [C, A, B], per_segment=3)
    _terms(many, "far", [(C, range(3)), (A, range(3, 4))])
    many.wait_until_same("far", A, B, C)
    many.kill(B, "far")
    many[A].produce("far", range(4, 5))
    many.lead("far", C)
    _terms(many, "far", [(C, range(5, 7)), (A, range(7, 12))])
    many.wait_for_tier("far", [0, 3, 6])
    many.wait_for_local("far", 9, A, C)
    many.start(B)
    many.wait_until_same("far", A, B, C)
    many.expect_states_built(B, "far", at_least=1)
    assert many[B].local_starts("far") == [9]
    many.wait_for_epochs("far", B, {0: 0, 1: 3, 2: 5, 3: 7})
    many.expect_same_state("far", 9)
    many.wait_for_isr("far", many.partition("far").replica_nodes)
    many.lead("far", B)
    assert many[B].bounds("far") == Bounds(0, 9, 12)
    assert many[B].read("far", 0, 12) == numbered(range(12))


def hard_failures(many: ManyBrokers) -> None:
    """Scenario 3: both die, and the one that comes back first has lost 1 and 2."""
    many.create("lost", [A, B], per_segment=2, local_retention_bytes=closed_bytes(9))
    many[A].produce("lost", range(3))
    many.wait_for_tier("lost", [0])
    many.wait_until_same("lost", A, B)
    many.kill(A, "lost")
    many.kill(B, "lost")
    many.lose_tail(B, "lost", BATCH_BYTES)
    many.start(B)
    many.wait_for_leader("lost", B)
    many[B].send("lost", [b"msg3"])
    epoch = many.partition("lost").leader_epoch
    many.start(A)
    many.wait_for_isr("lost", [A, B])
    many.wait_until_same("lost", A, B)
    many.wait_for_epochs("lost", A, {0: 0, epoch: 1})
    for value in (b"msg4", b"msg5"):
        many[B].send("lost", [value])
    # The new leader copies what the lineage has from offset 1 on: the segment that holds it.
    many.wait_for_tier("lost", [0, 0])
    many[B].alter("lost", local_retention_bytes=1)
    assert many.wait_for_active_alone("lost", B) >= 2
    assert many.wait_for_active_alone("lost", A) >= 2
    expected = numbered([0]) + unkeyed(1, b"msg3", b"msg4", b"msg5")
    for leader in (B, A):
        many.lead("lost", leader)
        assert many[leader].read("lost", 0, 4) == expected
        assert many[leader].read("lost", 1, 1) == expected[1:2]
        # A client that has read 1 of epoch 0 learns that it has diverged.
        assert many.epoch_end("lost", 0) == (0, 1)


def unclean_election(many: ManyBrokers) -> None:
    """Scenario 4: B leads without 1 to 3, of which 1 and 2 are in the tier."""
    many.create("unclean", [A, B], per_segment=3, unclean_leader_election_enable=True)
    many[A].produce("unclean", range(1))
    many.wait_until_same("unclean", A, B)
    many.kill(B, "unclean")
    many[A].produce("unclean", range(1, 4))
    many.wait_for_tier("unclean", [0])
    many.wait_for_local("unclean", 3, A)
    many.kill(A, "unclean")
    many.start(B)
    many.wait_for_leader("unclean", B)
    epoch = many.partition("unclean").leader_epoch
    values = (b"msg4", b"msg5", b"msg6", b"msg7")
    for value in values:
        many[B].send("unclean", [value])
    many.wait_for_tier("unclean", [0, 0])
    assert many.wait_for_active_alone("unclean", B) >= 3
    many.wait_for_epochs("unclean", B, {0: 0, epoch: 1})
    expected = numbered([0]) + unkeyed(1, *values)
    assert many[B].read("unclean", 0, 5) == expected
    assert many[B].read("unclean", 1, 1) == expected[1:2]
    assert many.epoch_end("unclean", 0) == (0, 1)
    # The former leader cuts what only it had, though it is in the tier.
    many.start(A)
    many.wait_until_same("unclean", A, B)
    assert many[A].read("unclean", 0, 5) == expected


def divergence_in_the_tier(many: ManyBrokers) -> None:
    """Scenario 5: both have led alone, and the tier has two histories of 2 and 3."""
    many.create("two", [A, B], per_segment=4, unclean_leader_election_enable=True)
    many[A].produce("two", range(2))
    many.wait_until_same("two", A, B)
    many.kill(B, "two")
    many[A].produce("two", range(2, 5))
    many.wait_for_tier("two", [0])
    # A copy that its leader's death leaves unfinished is cleaned up, and is no history.
    many.wait_until_copied("two")
    many.kill(A, "two")
    many.start(B)
    many.wait_for_leader("two", B)
    for value in (b"msg4", b"msg5", b"msg6", b"msg7"):
        many[B].send("two", [value])
    many.wait_for_tier("two", [0, 0])
    many.wait_until_copied("two")
    many.kill(B, "two")
    many.start(A)
    many.wait_for_leader("two", A)
    epoch = many.partition("two").leader_epoch
    many[A].produce("two", range(5, 10))
    many.wait_for_tier("two", [0, 0, 4])
    local_start = many.wait_for_active_alone("two", A)
    many.wait_for_epochs("two", A, {0: 0, epoch: 5})
    many.reimage(B, "two")
    many.start(B)
    many.wait_for_isr("two", [A, B])
    many.wait_until_same("two", A, B)
    many.expect_states_built(B, "two", at_least=1)
    many.wait_for_epochs("two", B, {0: 0, epoch: 5})
    many.expect_same_state("two", local_start)
    many.lead("two", B)
    assert many[B].bounds("two") == Bounds(0, local_start, 10)
    assert many[B].read("two", 0, 10) == numbered(range(10))
    assert many[B].read("two", 2, 1) == numbered([2])
    # A client that has read 3 of B's own history learns that it has diverged.
    assert many.epoch_end("two", epoch - 1) == (0, 5)


def copying_begins_again(many: ManyBrokers) -> None:
    """Scenario 3.6: the next leader has other segments, and copies from the one that is missing."""
    many.create("again", [A, B], per_segment=3, local_retention_bytes=closed_bytes(20))
    many.kill(B, "again")
    many[A].produce("again", range(8))
    many.wait_for_tier("again", [0, 3])
    # Those of the other one take more batches.
    many[A].alter("again", segment_index_bytes=12 * 10)
    many.start(B)
    many.wait_for_isr("again", [A, B])
    many.wait_until_same("again", A, B)
    many.lead("again", B)
    many[B].produce("again", range(8, 15))
    wait_until(
        lambda: many.tier_starts("again")[:3] == [0, 0, 3],
        WITHIN_S,
        lambda: f"in the tier: {many.tier_starts('again')}",
    )
    many[B].alter("again", local_retention_bytes=1)
    many.wait_for_active_alone("again", B)
    assert many[B].read("again", 0, 15) == numbered(range(15))
    assert many[B].bounds("again").start == 0


def behind_the_local_start(many: ManyBrokers) -> None:
    """Scenario 5.1: the follower has 0, 1, 2 of epochs 0, 2, 4; the leader 5 to 8 of epoch 5."""
    many.create("local", [A, C, B], per_segment=1, local_retention_bytes=closed_bytes(4))
    _terms(many, "local", [(A, [0]), (C, []), (A, [1]), (C, []), (A, [2])])
    many.wait_until_same("local", A, B, C)
    many.wait_for_epochs("local", B, {0: 0, 2: 1, 4: 2})
    many.kill(B, "local")
    many.lead("local", C)
    many[C].produce("local", range(3, 9))
    many.wait_for_tier("local", list(range(8)))
    many.wait_for_local("local", 5, A, C)
    many.start(B)
    many.wait_until_same("local", A, B, C)
    many.expect_states_built(B, "local", at_least=1)
    assert many[B].local_starts("local")[0] == 5
    many.wait_for_epochs("local", B, {0: 0, 2: 1, 4: 2, 5: 3})
    many.wait_for_isr("local", many.partition("local").replica_nodes)
    many.lead("local", B)
    assert many[B].bounds("local") == Bounds(0, 5, 9)


def behind_the_log_start(many: ManyBrokers) -> None:
    """Scenario 5.2: the follower has 0 to 2; the leader's log begins at 5, and on its disk at 7."""
    many.create("start", [A, C, B], per_segment=1, local_retention_bytes=closed_bytes(4))
    many[A].produce("start", range(3))
    many.wait_until_same("start", A, B, C)
    many.kill(B, "start")
    many[A].produce("start", range(3, 11))
    many[A].delete_records("start", 5)
    many.wait_for_tier("start", list(range(5, 10)))
    many.wait_for_local("start", 7, A, C)
    many.start(B)
    many.wait_for_isr("start", [A, C, B])
    many.wait_until_same("start", A, B, C)
    many.expect_states_built(B, "start", at_least=1)
    assert many[B].local_starts("start")[0] == 7
    many.lead("start", B)
    assert many[B].bounds("start") == Bounds(5, 7, 11)
    assert many[B].read("start", 5, 6) == numbered(range(5, 11))


def state_out_of_reach(many: ManyBrokers) -> None:
    """Scenario 5.4: the follower tries again and stays out of sync until the tier has its state."""
    many.create("reach", [A, C], per_segment=3, local_retention_bytes=closed_bytes(4))
    many[A].produce("reach", range(8))
    many.wait_for_tier("reach", [0, 3])
    many.wait_for_local("reach", 3, A, C)
    with many.hidden_segment("reach", 0):
        many.begin_to_assign("reach", [A, C, B])
        many.wait_for_failed_builds(B, "reach", at_least=2)
        assert B not in many.partition("reach").isr_nodes
    many.wait_for_isr("reach", [A, C, B])
    many.wait_until_same("reach", A, B, C)
    many.expect_states_built(B, "reach", at_least=3)
    many.expect_same_state("reach", 3)
    many.lead("reach", B)
    assert many[B].read("reach", 0, 8) == numbered(range(8))


def gaps_between_epochs(many: ManyBrokers) -> None:
    """Scenario 5.5: epochs 0, 1, 3, 4 begin at 0, 2, 4, 6; nobody wrote in epoch 2."""
    many.create("gaps", [A, C], per_segment=2, local_retention_bytes=closed_bytes(4))
    terms: list[tuple[int, Iterable[int]]] = [
        (A, range(2)),
        (C, range(2, 4)),
        (A, []),
        (C, range(4, 6)),
        (A, range(6, 8)),
    ]
    _terms(many, "gaps", terms)
    many.wait_for_tier("gaps", [0, 2, 4])
    many.wait_for_local("gaps", 4, A, C)
    epochs = {0: 0, 1: 2, 3: 4, 4: 6}
    many.wait_for_epochs("gaps", A, epochs)
    # The leader's disk begins with epoch 3, and the record before it is not of epoch 2 but of 1.
    many.assign("gaps", [A, C, B])
    many.wait_until_same("gaps", A, B, C)
    many.expect_states_built(B, "gaps", at_least=1)
    assert many[B].local_starts("gaps")[0] == 4
    many.wait_for_epochs("gaps", B, epochs)
    many.expect_same_state("gaps", 4)
    many.lead("gaps", B)
    assert many[B].read("gaps", 0, 8) == numbered(range(8))


def moved_between_directories(many: ManyBrokers) -> None:
    """Scenario 5.7: a replica whose oldest records are in the tier only changes its directory."""
    many.create("moved", [A, B], per_segment=3, local_retention_bytes=closed_bytes(4))
    many[A].produce("moved", range(8), enable_idempotence=True)
    many.wait_for_tier("moved", [0, 3])
    many.wait_for_local("moved", 3, A, B)
    many.wait_until_same("moved", A, B)
    many.move_log("moved", B)
    many.wait_until_same("moved", A, B)
    assert many[B].local_starts("moved")[0] == 3
    many.wait_for_epochs("moved", B, many[A].epochs("moved"))
    many.expect_same_state("moved", 6)
    many.lead("moved", B)
    assert many[B].bounds("moved") == Bounds(0, 3, 8)
    assert many[B].read("moved", 0, 8) == numbered(range(8))
    many[B].produce("moved", range(8, 11))
    many.wait_for_tier("moved", [0, 3, 6])
    assert many[B].read("moved", 0, 11) == numbered(range(11))


def from_the_last_tiered(many: ManyBrokers) -> None:
    """KIP-1023: an empty follower begins with the first record that is not in the tier."""
    many.enable_last_tiered(True)
    many.create("pending", [A, C], per_segment=3, local_retention_bytes=closed_bytes(8))
    many[A].produce("pending", range(11), enable_idempotence=True)
    many.wait_for_tier("pending", [0, 3, 6])
    many.wait_for_local("pending", 3, A, C)
    many.assign("pending", [A, C, B])
    many.wait_until_same("pending", A, B, C)
    assert many[B].local_starts("pending") == [9]
    many.expect_states_built(B, "pending", at_least=1)
    many.expect_same_state("pending", 9)
    many.lead("pending", B)
    assert many[B].bounds("pending") == Bounds(0, 9, 11)
    assert many[B].read("pending", 0, 11) == numbered(range(11))
    many.enable_last_tiered(False)
