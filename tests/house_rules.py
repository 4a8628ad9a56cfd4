"""The house rules that no ready-made tool keeps, each a function from one file to its offences.

`test_house_rules.py` runs them over the tree and shows each of them a sample that it must catch.
Sizes are limits, not aims: most files stay under 200 lines and most functions under 20.
"""

import ast
import io
import math
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tierlog.tests.banned_calls import BANS, TEST_BANS, banned

ROOT = Path(__file__).resolve().parent.parent
LAYERS = (
    "cli",
    "testing",
    "pipeline",
    "broker",
    "coordinator",
    "security",
    "replication",
    "tiering",
    "storage",
    "clients",
)
"""The folders of the product, from the top down."""

PUBLIC_PACKAGES = ("testing/__init__.py",)
"""Beside the root."""

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
ARGUMENTS_MAX = 7
FILE_LINES_P90_MAX = 320  # nine files of ten in the layers; lower it when they allow it
PUBLIC_METHODS_MAX = 25
# Classes that are larger, with the methods that they have; lower the number with the count.
PUBLIC_METHODS_CEILINGS = {
    "storage/log/unified_log.py:UnifiedLog": 40,
    "storage/segment/log_segment.py:LogSegment": 39,
    "tests/replication/replica_walk.py:ReplicaWalk": 30,
    "tests/scenarios/tiering/one_broker.py:OneBroker": 30,
    "storage/log/local_log.py:LocalLog": 29,
    "pipeline/plots/canvas.py:Axes": 27,
    "storage/manager/log_manager.py:LogManager": 26,
}
GENERIC_NAMES = frozenset(
    {"util", "utils", "helper", "helpers", "common", "misc", "shared", "stuff"}
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Offences = Iterator[tuple[int, str]]


@dataclass(frozen=True)
class SourceFile:
    """One Python file: its path from the repository root, with forward slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def is_code(self) -> bool:
        """Whether it belongs to one of the layers."""
        return self.path.split("/", 1)[0] in LAYERS

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


def file_is_small(file: SourceFile) -> Offences:
    """A file has at most 700 lines; most stay below 400."""
    lines = len(file.text.splitlines())
    if lines > FILE_LINES_MAX:
        yield FILE_LINES_MAX, f"{lines} lines; {FILE_LINES_MAX} is the limit: split by concept"


def functions_are_small(file: SourceFile) -> Offences:
    """A function has at most 70 lines, its decorators and docstring included."""
    for function in file.functions:
        assert function.end_lineno is not None
        lines = function.end_lineno - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield (
                function.lineno,
                f"{function.name} has {lines} lines; {FUNCTION_LINES_MAX} at most",
            )


def arguments_are_few(file: SourceFile) -> Offences:
    """A function takes at most seven arguments beside self; beyond, a class with a name."""
    for function in file.functions:
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        count = len([argument for argument in named if argument.arg not in {"self", "cls"}])
        if count > ARGUMENTS_MAX:
            yield (
                function.lineno,
                f"{function.name} takes {count} arguments; {ARGUMENTS_MAX} at most",
            )


def classes_are_small(file: SourceFile) -> Offences:
    """A class has at most 25 public methods; those that have more never gain another."""
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.ClassDef):
            continue
        count = len(public_methods(node))
        ceiling = PUBLIC_METHODS_CEILINGS.get(f"{file.path}:{node.name}", PUBLIC_METHODS_MAX)
        if count > ceiling:
            yield node.lineno, f"{node.name} has {count} public methods; {ceiling} at most"
        elif ceiling > max(count, PUBLIC_METHODS_MAX):
            yield node.lineno, f"{node.name} has {count} public methods only: lower its ceiling"


def public_methods(node: ast.ClassDef) -> set[str]:
    """The public methods and properties that a class defines itself."""
    names = {method.name for method in node.body if isinstance(method, Function)}
    return {name for name in names if not name.startswith("_")}


def percentile_90(lines: Iterable[int]) -> int:
    """The number of lines that nine files of ten do not exceed (nearest rank)."""
    ordered = sorted(lines)
    return ordered[math.ceil(0.9 * len(ordered)) - 1]


def tests_share_by_name(file: SourceFile) -> Offences:
    """No test is imported by another: what tests share has a file whose name does not say test_."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(name.name for name in node.names)]
        elif isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        else:
            continue
        for module in modules:
            last = module.rpartition(".")[2]
            if last.startswith("test_"):
                yield node.lineno, f"imports {last}: what tests share has a file of its own"


def package_files_are_empty(file: SourceFile) -> Offences:
    """Only what users import says anything: an import line names the file that defines."""
    if (
        file.path.endswith("/__init__.py")
        and file.path not in PUBLIC_PACKAGES
        and file.text.strip()
    ):
        yield 1, "__init__.py is empty everywhere but in the root and in testing/"


def names_say_something(file: SourceFile) -> Offences:
    """No file or folder is called utils, helpers, common or misc."""
    for part in Path(file.path).with_suffix("").parts:
        for word in part.lower().split("_"):
            if word in GENERIC_NAMES:
                yield 1, f"{part!r} says nothing: name the concept"


def theory_and_docstrings(file: SourceFile) -> Offences:
    """A module opens with its theory; public classes and functions of the layers say what for."""
    if file.text.strip() and ast.get_docstring(file.tree) is None:
        yield 1, "the module does not say what it is"
    if not file.is_code:
        return
    for node in file.tree.body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None and not _is_named_by_module(file, node):
            yield node.lineno, f"{node.name} is public and has no docstring"


def _is_named_by_module(file: SourceFile, node: Function | ast.ClassDef) -> bool:
    """Messages, which Kafka names and describes, and handlers, whose module says what they do."""
    if isinstance(node, ast.ClassDef):
        return any(isinstance(b, ast.Name) and b.id in {"Message", "Struct"} for b in node.bases)
    return file.path.startswith("broker/handlers/") and node.name == "handle"


def nothing_is_swallowed(file: SourceFile) -> Offences:
    """No bare except, and no handler of everything that does nothing."""
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            yield node.lineno, "a bare except catches what was never thought of: name the error"
        elif _catches_all(node.type) and all(map(_does_nothing, node.body)):
            yield node.lineno, "the error is swallowed: answer it, or let it pass"


def groups_raise_outside(file: SourceFile) -> Offences:
    """Nothing is raised in `except*`: Python before 3.11.4 wraps it in an ExceptionGroup."""
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.TryStar):
            continue
        for handler in node.handlers:
            for inner in ast.walk(handler):
                if isinstance(inner, ast.Raise) and inner.exc is not None:
                    yield inner.lineno, "raised in `except*`: catch the ExceptionGroup by `except`"


def _catches_all(expression: ast.expr) -> bool:
    names = expression.elts if isinstance(expression, ast.Tuple) else [expression]
    return any(isinstance(n, ast.Name) and n.id in {"Exception", "BaseException"} for n in names)


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Return):
        return statement.value is None
    return isinstance(statement, ast.Pass | ast.Continue | ast.Break)


LOOK_AWAY = re.compile(r"#\s*(?:type:\s*ignore|pyright:\s*ignore|noqa)")
RULE_CODE = re.compile(r"\[[^\]]+\]|: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)*")


def ignores_have_code_and_reason(file: SourceFile) -> Offences:
    """A checker is told to look away only by the code of one rule, with words that say why.

    The words stand behind the code, or in a comment of their own on the line above.
    """
    commented_line = -1
    for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        found = LOOK_AWAY.search(token.string)
        if found is None:
            commented_line = line
            continue
        code = RULE_CODE.match(token.string, found.end())
        if code is None:
            yield line, "an ignore without the code of the rule"
        elif not re.search(r"\w", token.string[code.end() :]) and commented_line != line - 1:
            yield line, "an ignore without its reason: `# type: ignore[code]  # why`"


def doors_are_kept(file: SourceFile) -> Offences:
    """Time, chance, disk, network, threads and tasks only through their one door."""
    if file.is_code:
        yield from banned(file.path, file.tree, BANS)
    elif file.path.startswith("tests/"):
        yield from banned(file.path, file.tree, TEST_BANS)


RULES: tuple[Callable[[SourceFile], Offences], ...] = (
    file_is_small,
    functions_are_small,
    arguments_are_few,
    classes_are_small,
    tests_share_by_name,
    package_files_are_empty,
    names_say_something,
    theory_and_docstrings,
    nothing_is_swallowed,
    groups_raise_outside,
    ignores_have_code_and_reason,
    doors_are_kept,
)


@cache
def source_files() -> tuple[SourceFile, ...]:
    """Every Python file of the repository, parsed once for all rules."""
    paths = sorted(ROOT.glob("*.py"))
    for folder in (*LAYERS, "bench", "docker", "tests"):
        paths += sorted((ROOT / folder).rglob("*.py"))
    return tuple(
        SourceFile(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths
    )
