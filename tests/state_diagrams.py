"""Pictures of the state machines, drawn from the tables that the code itself goes by.

`make diagrams` writes `docs/state-machines.md`; `test_state_diagrams.py` sees that the page is what
the tables say, and that no table is left out.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tierlog.broker.dispatch.fetch_pacing import TRANSITIONS as PACING, PacingState
from tierlog.broker.network.request_stream import TRANSITIONS as REQUESTS, RequestState
from tierlog.broker.network.response_queue import (
    TRANSITIONS as RESPONSES,
    ResponseEvent,
    ResponseState,
)
from tierlog.coordinator.classic.group_state import (
    NEXT_STATES,
    REACTIONS,
    GroupEvent,
    GroupState,
)
from tierlog.coordinator.consumer.reconciliation import (
    REACTIONS as MEMBER_REACTIONS,
    MemberEvent,
    MemberState,
)
from tierlog.coordinator.led_shards import TRANSITIONS as SHARD, ShardState
from tierlog.coordinator.transaction.transaction_state import (
    NEXT_STATES as NEXT_TRANSACTION_STATES,
    REACTIONS as TRANSACTION_REACTIONS,
    TransactionEvent,
    TransactionState,
)
from tierlog.replication.control.brokers.broker_life import TRANSITIONS as LIFE, BrokerLife
from tierlog.replication.control.brokers.broker_states import TRANSITIONS as BROKER, BrokerState
from tierlog.replication.control.controller_state import TRANSITIONS as CONTROLLER, ControllerState
from tierlog.replication.follower.fetch_state import NEXT_STATES as FETCH, FetchEvent, FetchState
from tierlog.replication.partition.isr import ISR_TRANSITIONS as ISR, IsrPhase
from tierlog.replication.partition.partition import TRANSITIONS as PARTITION, PartitionRole
from tierlog.replication.raft.raft_state import NEXT_STATES as QUORUM, RaftEvent, Role
from tierlog.security.sasl.transitions import TRANSITIONS as SASL, SaslState
from tierlog.security.tls.engine import TRANSITIONS as TLS, TlsState
from tierlog.storage.remote.remote_segment import PARTITION_DELETE_TRANSITIONS, SEGMENT_TRANSITIONS
from tierlog.tiering.task.copy_state import TRANSITIONS as COPYING, CopyEvent, CopyState

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "state-machines.md"

_OUTSIDE = "[*]"
_INTRODUCTION = """\
# State machines

Drawn from the tables in the code by `make diagrams`; a test keeps this page up to date. What is not
drawn cannot happen: code that tries it has a mistake of ours, and says so.
"""


class Move(NamedTuple):
    """From one state to another, and the events that do it (none where the table names none)."""

    origin: str
    target: str
    events: tuple[str, ...] = ()


class Machine(NamedTuple):
    """One table: where it stands, and its moves."""

    title: str
    source: str
    table: str
    moves: list[Move]


def moves_by_event(start: Enum, table: Iterable[tuple[tuple[Enum, Enum], Enum]]) -> list[Move]:
    """The moves of a table that leads from (state, event) to a state; `start` is where all begin.

    Events that lead the same way share an arrow.
    """
    found: dict[tuple[str, str], tuple[str, ...]] = {(_OUTSIDE, start.name): ()}
    for (state, event), target in table:
        way = (state.name, target.name)
        found[way] = (*found.get(way, ()), str(event.value))
    return [Move(*way, events) for way, events in found.items()]


def moves_by_state(table: Iterable[tuple[Enum | None, frozenset[Enum]]]) -> list[Move]:
    """The moves of a table that leads from a state to those that may follow; None is outside."""
    return [
        Move(_OUTSIDE if state is None else state.name, target.name)
        for state, targets in table
        for target in sorted(
            targets, key=lambda each: list(each.__class__.__members__).index(each.name)
        )
    ]


_ANYWHERE = {
    FetchEvent.ELECTED,
    FetchEvent.ELECTED_UNKNOWN,
    FetchEvent.FENCED,
    FetchEvent.BROKEN,
    FetchEvent.TROUBLE,
}
"""From every state but FAILED alike (the first two: from that one too), so they are not drawn."""

_BY_WHAT_OTHERS_SAY = {RaftEvent.HIGHER_EPOCH, RaftEvent.LEADER_NAMED}
"""From every state to the same one, so they are not drawn."""

MACHINES = [
    Machine(
        "What has arrived on a client's connection; a loss leads to CLOSED",
        "broker/network/request_stream.py",
        "TRANSITIONS",
        moves_by_event(
            RequestState.READING,
            [pair for pair in REQUESTS.items() if pair[1] is not RequestState.CLOSED],
        ),
    ),
    Machine(
        "What is to be sent on it; a loss leads to CLOSED, and a peer that left to ENDING",
        "broker/network/response_queue.py",
        "TRANSITIONS",
        moves_by_event(
            ResponseState.READY,
            [
                pair
                for pair in RESPONSES.items()
                if pair[0][1] not in {ResponseEvent.LOSE, ResponseEvent.END}
            ],
        ),
    ),
    Machine(
        "A connection over TLS",
        "security/tls/engine.py",
        "TRANSITIONS",
        moves_by_event(TlsState.SHAKING, TLS.items()),
    ),
    Machine(
        "A connection that proves its name by SASL; any other event leads to FAILED",
        "security/sasl/transitions.py",
        "TRANSITIONS",
        moves_by_event(SaslState.VERSIONS_OR_HANDSHAKE, SASL.items()),
    ),
    Machine(
        "The pacing of a connection's Fetch responses",
        "broker/dispatch/fetch_pacing.py",
        "TRANSITIONS",
        moves_by_event(PacingState.FREE, PACING.items()),
    ),
    Machine(
        "What this broker is to a partition",
        "replication/partition/partition.py",
        "TRANSITIONS",
        moves_by_event(PartitionRole.FOLLOWER, PARTITION.items()),
    ),
    Machine(
        "The ISR of a partition as its leader knows it",
        "replication/partition/isr.py",
        "ISR_TRANSITIONS",
        moves_by_event(IsrPhase.COMMITTED, ISR.items()),
    ),
    Machine(
        "A follower, told of a leader; errors lead back to FETCHING after a pause, or to FAILED",
        "replication/follower/fetch_state.py",
        "NEXT_STATES",
        moves_by_event(
            FetchState.FETCHING, [pair for pair in FETCH.items() if pair[0][1] not in _ANYWHERE]
        ),
    ),
    Machine(
        "A node of the metadata quorum; a higher epoch leads to UNATTACHED from everywhere, and "
        "a leader that is named to FOLLOWER",
        "replication/raft/raft_state.py",
        "NEXT_STATES",
        moves_by_event(
            Role.UNATTACHED,
            [pair for pair in QUORUM.items() if pair[0][1] not in _BY_WHAT_OTHERS_SAY],
        ),
    ),
    Machine(
        "The controller",
        "replication/control/controller_state.py",
        "TRANSITIONS",
        moves_by_event(ControllerState.STANDBY, CONTROLLER.items()),
    ),
    Machine(
        "A broker, as the controller sees it",
        "replication/control/brokers/broker_states.py",
        "TRANSITIONS",
        moves_by_event(BrokerState.FENCED, BROKER.items()),
    ),
    Machine(
        "A broker, as it sees itself",
        "replication/control/brokers/broker_life.py",
        "TRANSITIONS",
        moves_by_event(BrokerLife.STARTING, LIFE.items()),
    ),
    Machine(
        "A segment in the remote tier",
        "storage/remote/remote_segment.py",
        "SEGMENT_TRANSITIONS",
        moves_by_state(SEGMENT_TRANSITIONS.items()),
    ),
    Machine(
        "The copying of a partition to the tier, in one term of leadership",
        "tiering/task/copy_state.py",
        "TRANSITIONS",
        moves_by_event(
            CopyState.UNKNOWN,
            [
                pair
                for pair in COPYING.items()
                if pair[0][0] is not CopyState.ENDED or pair[0][1] is CopyEvent.DEPOSED
            ],
        ),
    ),
    Machine(
        "A deleted partition's data in the remote tier",
        "storage/remote/remote_segment.py",
        "PARTITION_DELETE_TRANSITIONS",
        moves_by_state(PARTITION_DELETE_TRANSITIONS.items()),
    ),
    Machine(
        "The groups of one partition of __consumer_offsets",
        "coordinator/led_shards.py",
        "TRANSITIONS",
        moves_by_event(ShardState.LOADING, SHARD.items()),
    ),
    Machine(
        "A classic group",
        "coordinator/classic/group_state.py",
        "NEXT_STATES",
        [
            Move(_OUTSIDE, GroupState.EMPTY.name, ("made",)),
            Move(_OUTSIDE, GroupState.STABLE.name, ("loaded with its members",)),
            *moves_by_state(NEXT_STATES.items()),
        ],
    ),
    Machine(
        "A transactional id",
        "coordinator/transaction/transaction_state.py",
        "NEXT_STATES",
        [
            Move(_OUTSIDE, TransactionState.EMPTY.name, ("a producer has come",)),
            *moves_by_state(NEXT_TRANSACTION_STATES.items()),
        ],
    ),
]


class ReactionTable(NamedTuple):
    """What is done about each event in each state: a table, since no arrows could show it."""

    title: str
    source: str
    states: type[Enum]
    events: type[Enum]
    reactions: Mapping[tuple[Enum, Enum], Enum]


def _reaction_table(
    title: str,
    source: str,
    states: type[Enum],
    events: type[Enum],
    reactions: Iterable[tuple[tuple[Enum, Enum], Enum]],
) -> ReactionTable:
    return ReactionTable(title, source, states, events, dict(reactions))


REACTION_TABLES = [
    _reaction_table(
        "What a classic group does about an event",
        "coordinator/classic/group_state.py",
        GroupState,
        GroupEvent,
        REACTIONS.items(),
    ),
    _reaction_table(
        "What a heartbeat does to a member of the consumer protocol",
        "coordinator/consumer/reconciliation.py",
        MemberState,
        MemberEvent,
        MEMBER_REACTIONS.items(),
    ),
    _reaction_table(
        "What is done about an event in a transaction",
        "coordinator/transaction/transaction_state.py",
        TransactionState,
        TransactionEvent,
        TRANSACTION_REACTIONS.items(),
    ),
]


def diagram(moves: list[Move]) -> str:
    """The moves as Mermaid draws them; a state that nothing leaves is the end."""
    lines = ["stateDiagram-v2"]
    for origin, target, events in moves:
        label = f": {' / '.join(events)}" if events else ""
        lines.append(f"    {origin} --> {target}{label}")
    left = {origin for origin, target, _ in moves if origin != target}
    ends = dict.fromkeys(target for _, target, _ in moves if target not in left)
    lines += [f"    {end} --> {_OUTSIDE}" for end in ends]
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for machine in MACHINES:
        source = f"`{machine.table}` in [{machine.source}](../{machine.source})"
        drawing = f"```mermaid\n{diagram(machine.moves)}\n```"
        parts.append(f"## {machine.title}\n\n{source}\n\n{drawing}\n")
    parts += [_reactions(table) for table in REACTION_TABLES]
    return "\n".join(parts)


def _reactions(table: ReactionTable) -> str:
    source = table.source
    head = " | ".join(str(state.value) for state in table.states)
    rows = [
        " | ".join(
            [
                str(event.value),
                *(str(table.reactions[state, event].value) for state in table.states),
            ]
        )
        for event in table.events
    ]
    lines = [
        f"## {table.title}\n\n`REACTIONS` in [{source}](../{source})\n",
        f"| event | {head} |",
        "|---" * (1 + len(table.states)) + "|",
        *(f"| {row} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
