"""Compiles decoders: functions that decode one version of one message.

The input comes from any client, so it is not trusted: before anything is allocated for a string or
an array, its size is compared with the number of bytes left. (An array is at least as large as its
count times the smallest size of an element.) The struct module and indexing raise an error on
reading past the end, which becomes a `ProtocolError` too.

Elements are far larger in memory than on the wire, so a decoder also has a limit, `allowed`, on the
total number of elements in all arrays and tagged fields of a message. A decoder in steps is a
generator that pauses after each element of an array, for messages too large to be decoded at once.

The source for version 2 of an example message with an int32 and a string:

    def decode(buf, p, allowed=UNLIMITED):
     end = len(buf)
     try:
      o1 = new(ExampleRequest2)
      o1.session_id, n3 = unpack4(buf, p)
      p += 6
      if n3 < 0:
       raise null('topic')
      else:
       q = p + n3
       if q > end:
        raise short('topic')
       o1.topic = str(buf[p:q], 'utf-8', 'replace')
       p = q
      return o1, p
     except PastTheEnd as error:
      raise cut('ExampleRequest version 2') from error
"""

from struct import error as StructError, unpack_from

from ..errors import ProtocolError
from .primitives import (
    STRING_SIZE_MAX,
    UNLIMITED,
    TooManyElementsError,
    big_endian,
    read_tag_header,
    read_unsigned_varint,
    skip_tagged_fields,
)
from .schema import FIXED_FORMATS, FieldSpec, FieldType, Message, Struct, fields_of, is_flexible
from .source import SourceWriter, present_fields, smallest_size, tagged_fields


def _null(name: str) -> ProtocolError:
    return ProtocolError(f"{name} is null, which this version does not allow")


def _short(name: str) -> ProtocolError:
    return ProtocolError(f"{name} is longer than the rest of the message")


def _misfit(name: str) -> ProtocolError:
    return ProtocolError(f"The tagged field {name} does not have its announced size")


def _cut_error(message: str) -> ProtocolError:
    return ProtocolError(f"{message} is truncated")


_NAMESPACE: dict[str, object] = {
    "PastTheEnd": (StructError, IndexError),
    "cut": _cut_error,
    "new": object.__new__,
    "null": _null,
    "short": _short,
    "misfit": _misfit,
    "tag_header": read_tag_header,
    "uvarint": read_unsigned_varint,
    "unpack_numbers": unpack_from,
    "skip_tags": skip_tagged_fields,
    "TooManyElements": TooManyElementsError,
    "UNLIMITED": UNLIMITED,
}


class DecoderWriter(SourceWriter):
    """Writes the decoder of one version, `decode(buf, p, allowed)`, which `compile` defines.

    With `in_steps` the decoder is a generator.
    """

    def __init__(self, version: int, *, flexible: bool, in_steps: bool = False) -> None:
        super().__init__(version, flexible=flexible)
        self._in_steps = in_steps
        self.namespace.update(_NAMESPACE)
        self._tag_readers: list[tuple[str, type[Struct]]] = []

    def message(self, cls: type[Struct]) -> None:
        with self.block("def decode(buf, p, allowed=UNLIMITED):"):
            self.line("end = len(buf)")
            if self._in_steps:
                # Make it a generator even if it has no arrays.
                self.line("yield")
            with self.block("try:"):
                target = self.variable("o")
                self._struct(cls, target)
                self._flush()
                self.line(f"return {target}, p")
            with self.block("except PastTheEnd as error:"):
                title = f"{cls.__name__} version {self.version}"
                self.line(f"raise cut({title!r}) from error")
        # Tagged fields are read without pauses.
        self._in_steps = False
        while self._tag_readers:
            self._tag_reader(*self._tag_readers.pop())

    def _struct(self, cls: type[Struct], target: str) -> None:
        present = present_fields(cls, self.version)
        self.line(f"{target} = new({self.bind(cls.__name__, cls)})")
        for spec in fields_of(cls):
            if spec not in present:
                self.line(f"{target}.{spec.name} = {self._default(spec)}")
        for spec in present:
            nullable = spec.nullable.includes(self.version)
            self._value(spec.type, f"{target}.{spec.name}", spec.name, nullable)
        if self.flexible:
            self._tags(cls, target)

    def _default(self, spec: FieldSpec) -> str:
        if spec.default == ():
            return "[]"
        if spec.default is None or isinstance(spec.default, int | str):
            return repr(spec.default)
        return self.bind("default", spec.default)

    def _value(
        self, kind: FieldType, target: str, name: str, nullable: bool, *, is_tagged: bool = False
    ) -> None:
        """Read one value into `target`, an attribute or a variable."""
        if kind.kind in FIXED_FORMATS:
            self.run.append((FIXED_FORMATS[kind.kind], target))
        elif kind.kind == "struct":
            self._nested_struct(kind, target, nullable, is_tagged)
        elif kind.kind == "array":
            self._array(kind, target, name, nullable)
        else:
            self._sized(kind.kind, target, name, nullable)

    def _nested_struct(self, kind: FieldType, target: str, nullable: bool, is_tagged: bool) -> None:
        """Read a struct; if nullable, after a byte: -1 for null, or 0 in a tagged field."""
        assert kind.struct is not None
        inside = self.variable("o")
        if not nullable:
            self._struct(kind.struct, inside)
            self.line(f"{target} = {inside}")
            return
        present = self.variable("n")
        self.run.append(("b", present))
        self._flush()
        with self.block(f"if {present} {'<=' if is_tagged else '<'} 0:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self._struct(kind.struct, inside)
            self._flush()
            self.line(f"{target} = {inside}")

    def _length(self, letter: str, target: str, name: str, nullable: bool) -> str:
        """Read a length or count, and handle null; the caller then opens an `else:` block. Returns
        the expression for the length."""
        length = self.variable("n")
        self.run.append(("B" if self.flexible else letter, length))
        self._flush()
        if self.flexible:
            with self.block(f"if {length} > 127:"):
                self.line(f"{length}, p = uvarint(buf, p - 1)")
        with self.block(f"if {length} == 0:" if self.flexible else f"if {length} < 0:"):
            self.line(f"{target} = None" if nullable else f"raise null({name!r})")
        return f"{length} - 1" if self.flexible else length

    def _sized(self, kind: str, target: str, name: str, nullable: bool) -> None:
        length = self._length("h" if kind == "string" else "i", target, name, nullable)
        with self.block("else:"):
            self.line(f"q = p + {length}")
            limited = self.flexible and kind == "string"
            too_long = f" or q - p > {STRING_SIZE_MAX}" if limited else ""
            with self.block(f"if q > end{too_long}:"):
                self.line(f"raise short({name!r})")
            self.line(f"{target} = {_CONVERSIONS[kind]}")
            self.line("p = q")

    def _array(self, kind: FieldType, target: str, name: str, nullable: bool) -> None:
        assert kind.element is not None
        count = self._length("i", target, name, nullable)
        with self.block("else:"):
            size = smallest_size(kind.element, self.version, flexible=self.flexible)
            n = self.variable("n")
            self.line(f"{n} = {count}")
            with self.block(f"if {n} * {max(size, 1)} > end - p:"):
                self.line(f"raise short({name!r})")
            self.line(f"allowed -= {n}")
            with self.block("if allowed < 0:"):
                self.line("raise TooManyElements")
            letter = FIXED_FORMATS.get(kind.element.kind)
            if letter is not None and len(letter) == 1:
                # The struct module caches a limited number of these formats itself.
                numbers = f"unpack_numbers(f'>{{{n}}}{letter}', buf, p)"
                self.line(f"{target} = list({numbers})")
                self.line(f"p += {n} * {size}")
                return
            elements, element = self.variable("a"), self.variable("o")
            self.line(f"{target} = {elements} = []")
            with self.block(f"for _ in range({n}):"):
                if kind.element.struct is not None:
                    self._struct(kind.element.struct, element)
                else:
                    self._value(kind.element, element, name, nullable=False)
                self._flush()
                self.line(f"{elements}.append({element})")
                if self._in_steps:
                    self.line("yield")

    def _tags(self, cls: type[Struct], target: str) -> None:
        """Read the count of tagged fields, nearly always 0; another function reads the fields."""
        count = self.variable("n")
        self.run.append(("B", count))
        self._flush()
        reader = "skip_tags(buf, p - 1, end, allowed)"
        if tagged_fields(cls, self.version):
            name = f"tags_of_{self.bind(cls.__name__, cls)}"
            reader = f"{name}({target}, buf, p - 1, end, allowed)"
            if name not in self.namespace:
                self.namespace[name] = None
                self._tag_readers.append((name, cls))
        with self.block(f"if {count}:"):
            self.line(f"p, allowed = {reader}")

    def _tag_reader(self, name: str, cls: type[Struct]) -> None:
        with self.block(f"def {name}(o, buf, p, end, allowed):"):
            self.line("count, p = uvarint(buf, p)")
            self.line("allowed -= count")
            with self.block("if allowed < 0:"):
                self.line("raise TooManyElements")
            with self.block("for _ in range(count):"):
                self.line("tag, p, stop = tag_header(buf, p, end)")
                for spec in tagged_fields(cls, self.version):
                    with self.block(f"if tag == {spec.tag}:"):
                        nullable = spec.nullable.includes(self.version)
                        target = f"o.{spec.name}"
                        self._value(spec.type, target, spec.name, nullable, is_tagged=True)
                        self._flush()
                        with self.block("if p != stop:"):
                            self.line(f"raise misfit({spec.name!r})")
                self.line("p = stop")
            self.line("return p, allowed")

    def _flush(self) -> None:
        """Read the collected run of fixed-size fields."""
        if not self.run:
            return
        letters = "".join(letter for letter, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        self.run.clear()
        if letters == "B":
            self.line(f"{targets} = buf[p]")
            self.line("p += 1")
            return
        form = big_endian(letters)
        comma = "" if "," in targets else ","
        self.line(f"{targets}{comma} = {self.bind('unpack', form.unpack_from)}(buf, p)")
        self.line(f"p += {form.size}")


_CONVERSIONS = {
    "string": "str(buf[p:q], 'utf-8', 'replace')",
    "bytes": "bytes(buf[p:q])",
    "records": "buf[p:q]",
}
"""Invalid UTF-8 is replaced, as in Kafka. Bytes are copied, because they outlive the buffer;
records are not copied, because they are on the hot path."""


def decoder_source(cls: type[Message], version: int, *, in_steps: bool = False) -> DecoderWriter:
    """The writer of the decoder for one version of `cls`, with its complete source."""
    writer = DecoderWriter(version, flexible=is_flexible(cls, version), in_steps=in_steps)
    writer.message(cls)
    return writer
