"""The anomalies of a history by their names in jepsen.tests.kafka, and those that Kafka allows."""

from enum import StrEnum
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


# Kafka does not isolate writers: records of open transactions interleave in a log.
LEGAL = frozenset({Anomaly.G0, Anomaly.G1C_WITH_WRITES, Anomaly.INT_SEND_SKIP})
"""What Kafka may show to clients that are idempotent, wait for acks=all from more than one replica
in sync, read what is committed, assign their partitions themselves and read to the end."""
