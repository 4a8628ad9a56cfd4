"""docs/log-messages.md: every line that the broker logs at INFO and above, and what to do about it.

    make log-messages     writes the page anew, from the logger calls in the code

An INFO line needs nothing. Every other one has its sentence in `log_actions.toml`, by its format
text, so that moved and renamed code keeps it.
"""

import ast
import functools
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tierlog.tests.house_rules import LAYERS, ROOT

PAGE = ROOT / "docs" / "log-messages.md"
ACTIONS = ROOT / "tests" / "log_actions.toml"

_LOGGER = "_log"
_LEVELS = {
    "critical": "CRITICAL",
    "error": "ERROR",
    "exception": "ERROR",
    "warning": "WARNING",
    "log": "WARNING",  # The level is computed: the page shows the highest one in use.
    "info": "INFO",
}
_ORDER = ("CRITICAL", "ERROR", "WARNING", "INFO")
_NAME_CHARACTERS = re.compile(r"[a-z_]+\Z", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[a-z]")

_INTRODUCTION = """\
# Log messages

Every line at INFO and above, and what to do about it. Levels and loggers are explained in
[logging.md](logging.md). `make log-messages` writes this page from the code. `<…>` stands for a
value. INFO lines report normal operation and need no action.
"""


class Message(NamedTuple):
    """A line that the code can log: `text` is the format string, `readable` has names for `%s`."""

    room: str
    level: str
    text: str
    readable: str


@functools.cache
def messages() -> Sequence[Message]:
    """Every line at INFO and above in product code, each once for a room and level, sorted."""
    found: dict[tuple[str, str, str], Message] = {}
    for top in LAYERS:
        for path in sorted((ROOT / top).rglob("*.py")):
            room = path.parent.relative_to(ROOT).as_posix()
            text = path.read_text()
            if f"{_LOGGER}." not in text:
                continue
            for message in _messages_in(ast.parse(text), room):
                found.setdefault(message[:3], message)
    return sorted(
        found.values(),
        key=lambda each: (
            LAYERS.index(each.room.split("/")[0]),
            each.room,
            _ORDER.index(each.level),
            each.text,
        ),
    )


def _messages_in(module: ast.Module, room: str) -> Iterator[Message]:
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        logger, method = call.func.value, call.func.attr
        if not isinstance(logger, ast.Name) or logger.id != _LOGGER or method not in _LEVELS:
            continue
        text, *values = call.args[1:] if method == "log" else call.args
        if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
            raise ValueError(f"{room}: a format text must be a literal: {ast.unparse(call)}")
        yield Message(room, _LEVELS[method], text.value, _readable(text.value, values))


def _readable(text: str, values: list[ast.expr]) -> str:
    """`text` with each placeholder replaced by the name of its value, `…` where that is complex."""
    names = iter(values)

    def name(_: re.Match[str]) -> str:
        value = next(names, None)
        while isinstance(value, ast.Call) and value.args:
            value = value.args[0]
        word = ast.unparse(value).rpartition(".")[2] if value is not None else ""
        return f"<{word.strip('_').replace('_', ' ')}>" if _NAME_CHARACTERS.match(word) else "<…>"

    return _PLACEHOLDER.sub(name, text).replace("%%", "%")


def actions() -> dict[str, str]:
    """What to do, by format text."""
    read: dict[str, str] = tomllib.loads(ACTIONS.read_text())
    return read


def page() -> str:
    """The page in whole. Raises KeyError for a line above INFO without an action."""
    what_to_do = actions()
    parts, room, level = [_INTRODUCTION], "", ""
    for message in messages():
        if message.room != room:
            parts.append(f"\n## {message.room}\n")
        if (message.room, message.level) != (room, level):
            parts.append(f"\n{message.level}\n\n")
        room, level = message.room, message.level
        parts.append(f"- `{message.readable.replace('`', chr(39))}`")
        if message.text in what_to_do or level != "INFO":
            parts.append(f"\n  {what_to_do[message.text]}")
        parts.append("\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
