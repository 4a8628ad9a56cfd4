"""The anomalies of a history by their names in jepsen.tests.kafka, and where Kafka allows each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class Anomaly(StrEnum):
    """What a history can show that a reader of Kafka's documentation may not expect."""

    DUPLICATE = "duplicate"
    """A value is at two offsets."""
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    """An offset has two values."""
    LOST_WRITE = "lost-write"
    """A committed value was never read, though a higher offset of its partition was."""
    UNSEEN = "unseen"
    """A committed value was never read."""
    G1A = "G1a"
    """A value of an aborted transaction was read."""
    PRECOMMITTED_READ = "precommitted-read"
    """A transaction read what it had sent itself."""
    G0 = "G0"
    """A cycle of transactions, each of which sent before another did, in the order of a log."""
    G1C = "G1c"
    """A cycle of transactions, each of which read what another sent."""
    G1C_WITH_WRITES = "G1c-ww"
    """A cycle with edges of both kinds: G1c in Jepsen with its option ww-deps."""
    G1C_REALTIME = "G1c-realtime"
    """A cycle of reads and of the order in time: a value was read before it was sent."""
    POLL_SKIP = "poll-skip"
    """The polls of a process jumped over values of a partition."""
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    """The polls of a process went back in a partition, or did not move."""
    NONMONOTONIC_SEND = "nonmonotonic-send"
    """A process sent a value before another that has a lower offset."""
    INT_POLL_SKIP = "int-poll-skip"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    INT_SEND_SKIP = "int-send-skip"
    """Between two values that one transaction sent in a row, a partition has another one's."""
    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"


class Case(NamedTuple):
    """One case of an anomaly, in a sentence."""

    anomaly: Anomaly
    text: str


@dataclass(frozen=True, slots=True)
class Guarantees:
    """How the clients of a history were set, which decides what Kafka promises them."""

    acks_all: bool = True
    """acks=all, min.insync.replicas above 1, no unclean election."""
    idempotent: bool = True
    read_committed: bool = True
    assigns: bool = True
    """Consumers assign their partitions, and no group coordinator moves them."""
    reads_to_end: bool = True
    """After the last send, every partition was read to its end."""

    def allows(self, anomaly: Anomaly) -> bool:
        """Whether Kafka may show this anomaly to such clients."""
        needed = NEEDS[anomaly]
        return needed is None or not all(getattr(self, name) for name in needed)


NEEDS: Mapping[Anomaly, tuple[str, ...] | None] = MappingProxyType(
    {
        Anomaly.DUPLICATE: ("idempotent", "acks_all"),
        Anomaly.INCONSISTENT_OFFSETS: ("acks_all",),
        Anomaly.LOST_WRITE: ("acks_all",),
        Anomaly.UNSEEN: ("acks_all", "reads_to_end"),
        Anomaly.G1A: ("read_committed", "acks_all"),
        Anomaly.PRECOMMITTED_READ: ("read_committed",),
        # Kafka does not isolate writers: records of open transactions interleave in a log.
        Anomaly.G0: None,
        Anomaly.G1C: ("read_committed",),
        Anomaly.G1C_WITH_WRITES: None,
        Anomaly.G1C_REALTIME: (),
        Anomaly.POLL_SKIP: ("assigns", "acks_all"),
        Anomaly.NONMONOTONIC_POLL: ("assigns", "acks_all"),
        Anomaly.NONMONOTONIC_SEND: ("idempotent", "acks_all"),
        Anomaly.INT_POLL_SKIP: ("acks_all",),
        Anomaly.INT_NONMONOTONIC_POLL: ("acks_all",),
        Anomaly.INT_SEND_SKIP: None,
        Anomaly.INT_NONMONOTONIC_SEND: ("idempotent", "acks_all"),
    }
)
"""The guarantees that rule an anomaly out; None if Kafka never does, () if it always does."""
