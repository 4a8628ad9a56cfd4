"""ARCHITECTURE.md and its map lead to any room and file, and to none that is gone."""

import re
from pathlib import Path

from tierlog.tests.house_rules import LAYERS, ROOT

LISTS_BY_API = frozenset({"broker/handlers", "clients/protocol/messages"})
FILES_IN_A_ROOM_MAX = 22
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
MAP = (ROOT / "docs/map.md").read_text()
WORDS_MAX = 2_500
"""What is read in about ten minutes."""
_CITED = re.compile(r"`([\w/.-]+\.(?:py|md|toml))`|\]\(([\w/.-]+)\)")


def rooms() -> list[str]:
    """Every folder of the layers that holds code, as the page writes it."""
    folders = (path.parent for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
    return sorted({folder.relative_to(ROOT).as_posix() for folder in folders})


def absent_in(page: str) -> list[str]:
    """The files that a page cites and that are not there; a bare name may lie in any room."""
    names = {path.name for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}
    cited = [in_code or linked for in_code, linked in _CITED.findall(page)]
    return [name for name in cited if name not in names and not (ROOT / name).exists()]


def unnamed_in(page: str) -> list[str]:
    """The rooms that a page does not name; a list by API inside a room is told with the room."""
    return [room for room in rooms() if f"`{room}/`" not in page and room not in LISTS_BY_API]


def test_every_room_is_on_the_map() -> None:
    assert unnamed_in(MAP) == []


def test_every_file_that_the_pages_cite_is_there() -> None:
    assert absent_in(PAGE) == []
    # Its links are relative to docs/, and tested with those of all pages there.
    assert absent_in(re.sub(r"\]\(.*?\)", "", MAP)) == []


def test_the_page_is_short() -> None:
    assert len(PAGE.split()) <= WORDS_MAX


def test_a_room_that_is_not_named_and_a_file_that_is_gone_are_noticed() -> None:
    assert unnamed_in(MAP.replace("`storage/log/`", "")) == ["storage/log"]
    assert absent_in("`storage/gone.py`, [gone](docs/gone.md), `unified_log.py`") == [
        "storage/gone.py",
        "docs/gone.md",
    ]


def test_a_room_is_small_enough_to_be_looked_over() -> None:
    counts = {room: len(list((Path(ROOT) / room).glob("*.py"))) for room in rooms()}
    crowded = {room for room, count in counts.items() if count > FILES_IN_A_ROOM_MAX}
    assert crowded <= LISTS_BY_API
