"""Writes Python source line by line: the common part of the decoder and encoder compilers.

The compiled functions are straight-line code, but for loops over arrays and tagged fields, and
branches for nulls, invalid sizes and lengths that need a second byte. Adjacent fields of fixed size
become one format of the struct module, collected in `run` until a field of variable size follows.
"""

from collections.abc import Generator
from contextlib import contextmanager

from .schema import FIXED_FORMATS, FieldSpec, FieldType, Struct, fields_of


class SourceWriter:
    """The source being written, and the objects that it refers to by name."""

    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.namespace: dict[str, object] = {}
        self.run: list[tuple[str, str]] = []
        """Pairs of a struct letter and an expression: the target to read into, or the value."""
        self._lines: list[str] = []
        self._depth = 0
        self._names: dict[int, str] = {}
        self._counter = 0

    def line(self, text: str) -> None:
        self._lines.append(" " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Generator[None]:
        """An indented block after an opening such as `if x:`."""
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self, prefix: str) -> str:
        """A name that is unique in this source."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def bind(self, prefix: str, value: object) -> str:
        """The name by which the source refers to `value`."""
        name = self._names.get(id(value))
        if name is None:
            name = self.variable(prefix)
            self._names[id(value)] = name
            self.namespace[name] = value
        return name

    def source(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compile(self, title: str) -> None:
        """Execute the source, which adds its functions to `namespace`."""
        exec(compile(self.source(), f"<{title}>", "exec"), self.namespace)


def present_fields(cls: type[Struct], version: int) -> tuple[FieldSpec, ...]:
    """The untagged fields of a version, in order."""
    return tuple(
        spec for spec in fields_of(cls) if spec.tag is None and spec.versions.includes(version)
    )


def tagged_fields(cls: type[Struct], version: int) -> tuple[FieldSpec, ...]:
    """The tagged fields of a version, in the order of their tags, as they must be written."""
    tagged = [
        spec for spec in fields_of(cls) if spec.tag is not None and spec.versions.includes(version)
    ]
    return tuple(sorted(tagged, key=lambda spec: spec.tag or 0))


def smallest_size(field_type: FieldType, version: int, *, flexible: bool) -> int:
    """The minimum encoded size of a non-null value; callers that check counts use at least 1."""
    if field_type.kind == "struct":
        assert field_type.struct is not None
        inside = sum(
            smallest_size(spec.type, version, flexible=flexible)
            for spec in present_fields(field_type.struct, version)
        )
        return inside + flexible
    if field_type.kind in FIXED_FORMATS:
        return 16 if field_type.kind == "uuid" else _SIZES[FIXED_FORMATS[field_type.kind]]
    if flexible:
        return 1
    return 2 if field_type.kind == "string" else 4


_SIZES = {"?": 1, "b": 1, "h": 2, "i": 4, "q": 8, "H": 2, "I": 4, "d": 8}
