"""What we write to `__transaction_state` is what Apache Kafka's own coordinator writes.

Kafka's TransactionLog serialises the same states, byte for byte, and reads ours. One thing is
Kafka's alone: it writes the partitions in the order of a hash table, we in that of their names, so
states with several partitions are compared as Kafka reads them.
"""

import pytest

from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.transaction.transaction_metadata import Transaction
from tierlog.coordinator.transaction.transaction_records import (
    TransactionEntry,
    read_transaction,
    transaction_record,
    transaction_tombstone,
)
from tierlog.coordinator.transaction.transaction_state import TransactionState
from tierlog.tests.conformance.java_programs import answers_of

pytestmark = pytest.mark.recorded

PROGRAM = "TransactionRecords.java"
WRITTEN_STATES = [state for state in TransactionState if state is not TransactionState.DEAD]
ONE = frozenset({TopicPartition("töpic", 3)})
SEVERAL = frozenset({TopicPartition("a", 0), TopicPartition("a", 11), TopicPartition("b.c", 7)})


def transaction(state: TransactionState, partitions: frozenset[TopicPartition]) -> Transaction:
    return Transaction(
        "my-töx",
        4_000_000_000,
        32_766,
        60_000,
        state,
        frozenset() if state is TransactionState.EMPTY else partitions,
        1_700_000_000_123,
        1_700_000_000_000,
        3_999_999_999,
        4_000_000_007,
        client_version=2,
    )


def fields(state: Transaction) -> list[str]:
    partitions = sorted(f"{topic}:{partition}" for topic, partition in state.partitions)
    return [
        state.transactional_id,
        str(state.producer_id),
        str(state.previous_producer_id),
        str(state.next_producer_id),
        str(state.producer_epoch),
        str(state.timeout_ms),
        state.state.value,
        ",".join(partitions),
        str(state.start_ms),
        str(state.last_update_ms),
        str(state.client_version),
    ]


STATES = [
    *(transaction(state, ONE) for state in WRITTEN_STATES),
    transaction(TransactionState.COMPLETE_ABORT, frozenset()),
    transaction(TransactionState.ONGOING, ONE)._replace(
        previous_producer_id=-1, next_producer_id=-1
    ),
]


def known_to(version: int, state: Transaction) -> Transaction:
    """A state as a record of that version of transactions tells it."""
    if version >= 1:
        return state
    return state._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_states_are_written_byte_for_byte_as_kafka_writes_them(version: int) -> None:
    known = [known_to(version, state) for state in STATES]
    lines = ["\t".join(["write", *fields(state), str(version)]) for state in known]
    records = [transaction_record(state, version) for state in known]
    ours = [f"{key.hex()}\t{(value or b'').hex()}" for key, value in records]
    assert ours == answers_of(PROGRAM, lines)


@pytest.mark.parametrize("version", [0, 2])
def test_kafka_and_we_read_what_either_wrote(version: int) -> None:
    states = [
        known_to(version, transaction(state, partitions))
        for state in WRITTEN_STATES
        for partitions in (ONE, SEVERAL)
    ]
    ours = [transaction_record(state, version) for state in states]
    asked = [f"read\t{key.hex()}\t{(value or b'').hex()}" for key, value in ours]
    assert answers_of(PROGRAM, asked) == ["\t".join(fields(state)) for state in states]
    written = answers_of(
        PROGRAM, ["\t".join(["write", *fields(state), str(version)]) for state in states]
    )
    for state, line in zip(states, written, strict=True):
        key, value = (bytes.fromhex(part) for part in line.split("\t"))
        assert read_transaction(key, value) == TransactionEntry(state.transactional_id, state)


def test_kafka_reads_our_tombstones() -> None:
    key, _ = transaction_tombstone("gone")
    assert answers_of(PROGRAM, [f"read\t{key.hex()}\t"]) == ["TxnTombstone[transactionId=gone]"]
