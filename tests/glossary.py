"""The words that names and messages of the code do without, and where some still stand.

A name is a noun for a thing or a verb for an act: `found` does not say what was found. What an
operator reads says what happened, to what, and what to do.

`ALLOWED` counts, for each folder, the names of before that are not renamed yet. The counts only go
down: whoever renames one lowers its number.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from tierlog.tests.house_rules import SourceFile

BANNED_NAMES = frozenset(
    {
        "asked",
        "complain",
        "found",
        "given",
        "gone",
        "known",
        "learn",
        "lent",
        "obey",
        "seen",
        "surroundings",
        "taken",
        "told",
        "wanted",
        "whose",
        "world",
    }
)
"""As whole names, whatever their case, with or without a leading underscore."""

BANNED_PHRASES = (
    "reason of our own",
    "whose it is",
    "earlier life",
    "next life",
    "nobody's",
    "is told in",
    "two looks",
)
"""In log lines, messages of errors and other strings of the code."""

ALLOWED = {
    "broker": 239,
    "clients": 124,
    "replication": 62,
    "storage": 67,
    "tiering": 118,
}


def banned_names(file: SourceFile) -> Iterator[tuple[int, str]]:
    """Where a banned word is given as the name of something: line and name."""
    for line, name in _names_given(file.tree):
        if name.strip("_").lower() in BANNED_NAMES:
            yield line, name


def banned_phrases(file: SourceFile) -> Iterator[tuple[int, str]]:
    """Where a string that is no docstring has a banned phrase: line and phrase."""
    docstrings = {id(text) for text in _docstrings(file.tree)}
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) in docstrings:
            continue
        text = re.sub(r"\s+", " ", node.value)
        for phrase in BANNED_PHRASES:
            if phrase in text:
                yield node.lineno, phrase


def counts_of(files: Iterable[SourceFile]) -> dict[str, int]:
    """How many banned names each top folder of the code has."""
    counts: Counter[str] = Counter(dict.fromkeys(ALLOWED, 0))
    for file in files:
        folder = PurePosixPath(file.path).parts[0]
        if folder in ALLOWED:
            counts[folder] += sum(1 for _ in banned_names(file))
    return dict(counts)


def _names_given(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Docstrings, and strings that stand alone: they describe the field above them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
