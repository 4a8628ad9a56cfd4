"""The page of state diagrams says what the tables say."""

import re
from enum import Enum

from tierlog.tests.house_rules import LAYERS
from tierlog.tests.state_diagrams import (
    MACHINES,
    PAGE,
    REACTION_TABLES,
    ROOT,
    Move,
    diagram,
    moves_by_event,
    moves_by_state,
    page,
)

_TABLE = re.compile(r"^(\w*TRANSITIONS|NEXT_STATES|REACTIONS): ", re.MULTILINE)


class Door(Enum):
    OPEN = 1
    SHUT = 2
    BRICKED_UP = 3


class Hand(Enum):
    PUSH = "push"
    KICK = "kick"


def test_the_committed_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page(), "run `make diagrams`"


def test_every_table_is_on_the_page() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), table)
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*.py")
        for table in _TABLE.findall(path.read_text())
    }
    drawn = {(machine.source, machine.table) for machine in MACHINES}
    assert found == drawn | {(table.source, "REACTIONS") for table in REACTION_TABLES}


def test_events_that_lead_the_same_way_share_an_arrow() -> None:
    table = {(Door.OPEN, Hand.PUSH): Door.SHUT, (Door.OPEN, Hand.KICK): Door.SHUT}
    moves = moves_by_event(Door.OPEN, table.items())
    assert moves == [Move("[*]", "OPEN"), Move("OPEN", "SHUT", ("push", "kick"))]
    assert diagram(moves).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> OPEN",
        "    OPEN --> SHUT: push / kick",
        "    SHUT --> [*]",
    ]


def test_a_state_that_only_leads_to_itself_is_an_end() -> None:
    table: dict[Door | None, frozenset[Door]] = {
        None: frozenset({Door.OPEN}),
        Door.OPEN: frozenset({Door.BRICKED_UP, Door.SHUT, Door.OPEN}),
        Door.SHUT: frozenset({Door.OPEN}),
        Door.BRICKED_UP: frozenset({Door.BRICKED_UP}),
    }
    assert diagram(moves_by_state(table.items())).splitlines()[1:] == [
        "    [*] --> OPEN",
        "    OPEN --> OPEN",
        "    OPEN --> SHUT",
        "    OPEN --> BRICKED_UP",
        "    SHUT --> OPEN",
        "    BRICKED_UP --> BRICKED_UP",
        "    BRICKED_UP --> [*]",
    ]
