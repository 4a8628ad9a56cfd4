"""Words that product code does not use: participles for names, and phrases that need a dictionary.

A name is a noun for a thing or a verb for an act: `segment`, `batches`, `report`, not `found`,
`wanted`, `complain`. A docstring, log line or error message uses Kafka's words.
"""

import ast
import re
from collections.abc import Iterator

from tierlog.tests.house_rules import LAYERS, Offences, SourceFile

BANNED_WORDS = frozenset(
    {
        *("found", "known", "wanted", "asked", "told", "taken"),
        *("learn", "obey", "complain"),
        *("World", "surroundings", "whose", "lent"),
    }
)
BANNED_PARTS = frozenset({"tell", "tells", "told", "owe", "owes", "owed", "whoever", "anew"})
"""No part of a longer name either: a report is sent or logged, and a listener notified."""
BANNED_PHRASES = re.compile(
    r"for a reason of (?:our|its) own|whose it is|earlier life|\bnobody[’']s\b|\bis told\b"
    r"|\bwhoever\b|\banew\b",
    re.IGNORECASE,
)
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})


def layer_of(file: SourceFile) -> str | None:
    """The layer that a file belongs to, the bench included; None for tests."""
    top = file.path.split("/", 1)[0]
    return top if top in (*LAYERS, "bench") else None


def banned_words(file: SourceFile) -> Offences:
    """No banned word is a whole identifier, and no banned part a part of one."""
    for line, name in _defined_names(file.tree):
        if name.strip("_") in BANNED_WORDS or not BANNED_PARTS.isdisjoint(name.split("_")):
            yield line, f"{name!r} is no noun for a thing and no verb for an act"


def _defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name that a module gives: variables, attributes, arguments, functions, classes."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name
            case ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case _:
                pass


def banned_phrases(file: SourceFile) -> Offences:
    """No banned phrase stands in a docstring, a log line or the message of an error."""
    for node in ast.walk(file.tree):
        for line, text in _texts_of(node):
            for phrase in BANNED_PHRASES.findall(" ".join(text.split())):
                yield line, f"{phrase!r}: say what happens, in Kafka's words"


def _texts_of(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings by which a node speaks to a reader of the code, of the log or of an error."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        docstring = ast.get_docstring(node)
        if docstring is not None:
            yield node.body[0].lineno, docstring
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _is_log_line(node)):
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.lineno, part.value


def _is_log_line(call: ast.Call) -> bool:
    """Whether a call is one of a logger's methods."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LOG_METHODS:
        return False
    logger = call.func.value
    name = logger.attr if isinstance(logger, ast.Attribute) else getattr(logger, "id", "")
    return name.strip("_") in {"log", "logger"}
