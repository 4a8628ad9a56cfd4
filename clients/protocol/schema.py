"""Declares messages as typed classes: one class for all versions of a message.

    class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
        max_wait_ms: int32 = field("0+")
        max_bytes: int32 = field("3+", default=0x7FFFFFFF, ignorable=True)

A field declares its versions (`"3+"`, `"0-12"`, `"7"`), the versions in which it may be null, its
tag if it is a tagged field (KIP-482), its default, and whether it may be dropped silently in a
version that lacks it. Names, order and defaults are those of the JSON definitions in Apache Kafka's
`common/message`; only the case of the field names differs. If no default is declared, the type
determines it: zero, false, an empty string, an empty list, a struct of defaults.

The rules of this module:

- A declaration is cheap: nothing is parsed or compiled before a class is used, because a broker
  imports twenty modules of messages and should start in a fraction of a second. The constructor is
  compiled at the first construction, the codecs (see `codec.py`) at the first use of a version.
- Type checkers see the constructor: every field is an optional keyword.
- A struct-valued field that is not set holds *the* default instance of its class, which is shared
  and refuses assignment; to set other values, construct a new struct.
"""

from collections.abc import Callable, Generator
from functools import cache
from types import GenericAlias, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    ClassVar,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
)

from ..kafka_uuid import ZERO_UUID, Uuid

T = TypeVar("T")


class Region(Protocol):
    """A section of a file that is sent without being read (`storage.files.FileRegion`)."""

    @property
    def position(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


Chunk = bytes | bytearray | memoryview | Region
"""One piece of an encoded message."""

int8 = Annotated[int, "int8"]
int16 = Annotated[int, "int16"]
int32 = Annotated[int, "int32"]
int64 = Annotated[int, "int64"]
uint16 = Annotated[int, "uint16"]
uint32 = Annotated[int, "uint32"]
float64 = Annotated[float, "float64"]
Records = Annotated[Chunk | None, "records"]
"""Record batches: decoded as a memoryview over the input, encoded by reference."""


class Unset:
    """The type of `UNSET`."""


UNSET = Unset()
"""In a declaration: no default is given, so the type's default applies."""


class Declaration(NamedTuple):
    """The declaration of one field in a class body, unparsed."""

    versions: str
    nullable: str | None
    tag: int | None
    default: object
    ignorable: bool


def field(
    versions: str,
    *,
    nullable: str | None = None,
    tag: int | None = None,
    default: T | Unset = UNSET,
    ignorable: bool = False,
) -> T:
    """Declare a field. Type checkers see a plain default value of the field's own type."""
    return cast("T", Declaration(versions, nullable, tag, default, ignorable))


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Turns declarations into slots, and keeps the declarations."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, object],
        **options: object,
    ) -> "StructType":
        if "__slots__" not in namespace:
            # Not by their annotations, which Python 3.14 computes only when asked (PEP 649).
            declared = {
                name: value for name, value in namespace.items() if isinstance(value, Declaration)
            }
            for field_name in declared:
                del namespace[field_name]
            namespace["__slots__"] = tuple(declared)
            namespace["__declared__"] = declared
        return super().__new__(cls, name, bases, namespace, **options)


class Struct(metaclass=StructType):
    """A group of fields inside a message. Compared by value; its repr is a constructor call."""

    __slots__ = ()
    __declared__: ClassVar[dict[str, Declaration]] = {}

    if not TYPE_CHECKING:

        def __init__(self, **values: object) -> None:
            """Compile the class's own constructor, replace this one with it, and call it."""
            type(self).__init__ = _compile_constructor(type(self))
            self.__init__(**values)

    def __eq__(self, other: object) -> bool:
        declared = self.__declared__
        if not isinstance(other, Struct) or other.__declared__ is not declared:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in declared)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__declared__)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A struct that is sent on its own: a request, a response, or a versioned value in a record.

    Class options: `key` is the API key of a request or response, or the type of a record, if any;
    `versions` are those that can be encoded and decoded; `flexible` are those with compact lengths
    and tagged fields, if any.
    """

    __slots__ = ()
    api_key: ClassVar[int] = -1
    versions: ClassVar[str] = ""
    flexible_versions: ClassVar[str | None] = None
    __encoders__: ClassVar[dict[int, Callable[["Message"], list[Chunk]]]] = {}
    __step_encoders__: ClassVar[
        dict[int, Callable[["Message", int], Generator[None, None, list[Chunk]]]]
    ] = {}
    __decoders__: ClassVar[dict[int, Callable[[memoryview, int, int], tuple["Message", int]]]] = {}
    __step_decoders__: ClassVar[
        dict[int, Callable[[memoryview, int, int], Generator[None, None, tuple["Message", int]]]]
    ] = {}

    def __init_subclass__(
        cls, *, versions: str, flexible: str | None = None, key: int = -1
    ) -> None:
        cls.api_key = key
        cls.versions = versions
        cls.flexible_versions = flexible
        cls.__encoders__ = {}
        cls.__step_encoders__ = {}
        cls.__decoders__ = {}
        cls.__step_decoders__ = {}


# The rest is slow and runs once per class: it parses declarations for the codec compilers.

NEWEST = 0x7FFF
"""The highest version, as versions are 16 bits on the wire; "3+" ends here."""


class VersionRange(NamedTuple):
    """The versions from lowest to highest, inclusive; none if highest is below lowest."""

    lowest: int
    highest: int

    def includes(self, version: int) -> bool:
        return self.lowest <= version <= self.highest


@cache
def version_range(text: str | None) -> VersionRange:
    """Parse `"3+"`, `"0-12"` or `"7"`; no text means no versions."""
    if text is None:
        return VersionRange(0, -1)
    lowest, dash, highest = text.partition("-")
    if dash:
        return VersionRange(int(lowest), int(highest))
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), NEWEST)
    return VersionRange(int(text), int(text))


def is_flexible(cls: type[Message], version: int) -> bool:
    """Whether this version has compact lengths and tagged fields (KIP-482)."""
    return version_range(cls.flexible_versions).includes(version)


FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
"""The kinds of fixed size, and their letters in the struct module."""

_PLAIN_KINDS: dict[object, str] = {bool: "bool", str: "string", bytes: "bytes", Uuid: "uuid"}

_EMPTY_VALUES: dict[str, object] = {
    "array": (),
    "bool": False,
    "bytes": b"",
    "float64": 0.0,
    "records": None,
    "string": "",
    "uuid": ZERO_UUID,
}
"""The default value of each kind whose default is not 0."""


class FieldType(NamedTuple):
    """The wire type of a value.

    `kind` is a key of FIXED_FORMATS, or string, bytes, records, struct or array. A struct has its
    class in `struct`; an array has the type of its elements in `element`.
    """

    kind: str
    struct: type[Struct] | None = None
    element: "FieldType | None" = None


class FieldSpec(NamedTuple):
    """One declared field, parsed. The default of a list is `()`; instances get a fresh list."""

    name: str
    type: FieldType
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    default: object
    ignorable: bool


def _field_type(annotation: object) -> FieldType:
    metadata = getattr(annotation, "__metadata__", None)
    if metadata is not None:
        return FieldType(cast("tuple[str]", metadata)[0])
    if isinstance(annotation, UnionType):
        (present,) = (part for part in get_args(annotation) if part is not type(None))
        return _field_type(present)
    if isinstance(annotation, GenericAlias):
        return FieldType("array", element=_field_type(get_args(annotation)[0]))
    if isinstance(annotation, StructType):
        return FieldType("struct", struct=cast("type[Struct]", annotation))
    return FieldType(_PLAIN_KINDS[annotation])


def _default(field_type: FieldType, declared: object) -> object:
    if not isinstance(declared, Unset):
        return declared
    if field_type.struct is not None:
        return default_instance(field_type.struct)
    return _EMPTY_VALUES.get(field_type.kind, 0)


@cache
def fields_of(cls: type[Struct]) -> tuple[FieldSpec, ...]:
    """The fields of a class as declared, which is their wire order, except for tagged fields."""
    annotations = cast("dict[str, object]", cls.__annotations__)
    specs: list[FieldSpec] = []
    for name, declared in cls.__declared__.items():
        field_type = _field_type(annotations[name])
        specs.append(
            FieldSpec(
                name,
                field_type,
                version_range(declared.versions),
                version_range(declared.nullable),
                declared.tag,
                _default(field_type, declared.default),
                declared.ignorable,
            )
        )
    return tuple(specs)


def _refuse(self: object, name: str, _: object) -> None:
    raise AttributeError(f"{type(self).__name__}.{name} is a shared default: construct a new one")


@cache
def default_instance(cls: type[Struct]) -> Struct:
    """The shared instance of `cls` that means "not set". It refuses assignment."""
    frozen = StructType(cls.__name__, (cls,), {"__slots__": (), "__setattr__": _refuse})
    instance = object.__new__(cast("type[Struct]", frozen))
    for spec in fields_of(cls):
        object.__setattr__(instance, spec.name, [] if spec.default == () else spec.default)
    return instance


def _compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    """Compile `__init__` with a keyword for each field; each instance gets fresh lists."""
    namespace: dict[str, object] = {"_empty": ()}
    parameters = ["self", "*"] if cls.__declared__ else ["self"]
    body: list[str] = []
    for spec in fields_of(cls):
        if spec.default == ():
            parameters.append(f"{spec.name}=_empty")
            body.append(f"self.{spec.name} = [] if {spec.name} is _empty else {spec.name}")
        else:
            namespace[f"_{spec.name}"] = spec.default
            parameters.append(f"{spec.name}=_{spec.name}")
            body.append(f"self.{spec.name} = {spec.name}")
    source = "\n ".join([f"def __init__({', '.join(parameters)}):", *(body or ["pass"])])
    exec(source, namespace)
    return cast("Callable[..., None]", namespace["__init__"])
