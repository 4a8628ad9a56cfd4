"""What a run of tests knows of its recordings: how Kafka is asked, what was read and written."""

from pathlib import Path
from typing import ClassVar

from .player import MissingRequestError, Player, Recording, UnaskedRequestError
from .sections import running
from .text_files import RecordedText
from .transcript import path_of

RECORDED, LIVE, RECORD = MODES = ("recorded", "live", "record")


class _Run:
    """There is one run of tests in a process."""

    mode = RECORDED
    recordings: ClassVar[dict[Path, Recording]] = {}
    texts: ClassVar[dict[Path, RecordedText]] = {}
    players: ClassVar[list[Player]] = []


def choose(mode: str) -> None:
    """How Kafka is asked in this run: one of MODES."""
    assert mode in MODES
    _Run.mode = mode


def mode() -> str:
    """How Kafka is asked by the test that is running: live, if it has no recording."""
    return _Run.mode if running().is_recorded else LIVE


def chosen() -> str:
    """The mode of this run."""
    return _Run.mode


def toolchains() -> tuple[str, ...]:
    """What a test that asks Kafka needs in this run."""
    return () if _Run.mode == RECORDED else ("java", "mvn")


def recording(test_file: Path) -> Recording:
    """What is played to a test file."""
    if test_file not in _Run.recordings:
        _Run.recordings[test_file] = Recording(path_of(test_file))
    return _Run.recordings[test_file]


def recorded_text(test_file: Path) -> RecordedText:
    """What is written down of a test file."""
    if test_file not in _Run.texts:
        _Run.texts[test_file] = RecordedText(path_of(test_file))
    return _Run.texts[test_file]


def begin_section(test_file: Path, title: str) -> None:
    """A test or fixture begins: its section is played from its first line."""
    if test_file in _Run.recordings:
        _Run.recordings[test_file].rewind(title)


def watch(player: Player) -> None:
    """What this player misses fails the test that is running."""
    _Run.players.append(player)


def check() -> None:
    """Raises MissingRequestError if a player has missed something since the last check."""
    missed = [error for player in _Run.players for error in player.errors]
    for player in _Run.players:
        player.errors.clear()
    if missed:
        raise MissingRequestError("\n".join(missed))


def end_section(test_file: Path, title: str) -> None:
    """A test or fixture has passed. Raises UnaskedRequestError if it has left something out."""
    if test_file not in _Run.recordings:
        return
    recording = _Run.recordings[test_file]
    unasked = recording.section(title).unasked()
    if unasked:
        raise UnaskedRequestError(
            f"{recording.path.name} has requests that `{title}` does not ask: run `make record`, "
            "which needs Java and Maven, and read the difference.\n" + "\n".join(unasked[:3])
        )


def save(titles: dict[Path, set[str]] | None) -> None:
    """Write what was recorded. `titles`: all tests of each file; None if only some have run."""
    for test_file, text in _Run.texts.items():
        text.save(None if titles is None else titles.get(test_file))
