"""Compiles encoders: functions that encode one version of one message.

An encoder returns a list of chunks. Small fields are packed by combined formats into `parts`, which
are joined into one chunk; records are chunks of their own, passed by reference, so that a file
region can go from disk to socket without being read here.

A field that a version lacks must have its default value, unless it is declared `ignorable`:
otherwise the receiver would act on a different message (Kafka's `UnsupportedVersionException`).

An error message that is too long is cut: it may repeat a name that a client has sent, and must not
prevent the response from being sent.

An encoder in steps is a generator that pauses after each element of an array, for messages too
large to be encoded at once. Between pauses it joins the encoded fields, and counts their bytes.
"""

from struct import error as StructError, pack

from ..errors import ErrorCode, KafkaError, ProtocolError
from .primitives import STRING_SIZE_MAX, big_endian, unsigned_varint
from .schema import (
    FIXED_FORMATS,
    FieldSpec,
    FieldType,
    Message,
    Struct,
    fields_of,
    is_flexible,
)
from .source import SourceWriter, present_fields, tagged_fields


def _unknown(name: str, version: int) -> KafkaError:
    return KafkaError(
        ErrorCode.UNSUPPORTED_VERSION, f"{name} is set, but version {version} does not have it"
    )


def _unfit(message: str, error: Exception) -> ValueError:
    return ValueError(f"{message}: {error}")


def _too_large(max_bytes: int) -> ProtocolError:
    return ProtocolError(f"the response would exceed {max_bytes} bytes")


_JOINED_PARTS = 4_096
_ERROR_MESSAGE_BYTES_MAX = 4_096

_NAMESPACE: dict[str, object] = {
    "Misfit": (StructError, AttributeError, TypeError),
    "unfit": _unfit,
    "join": b"".join,
    "too_large": _too_large,
    "unknown": _unknown,
    "one_byte": tuple(map(unsigned_varint, range(128))),
    "uvarint": unsigned_varint,
    "pack_numbers": pack,
    "in_memory": frozenset((bytes, bytearray)),
}


class EncoderWriter(SourceWriter):
    """Writes the encoder of one version, `encode(message)`, which `compile` defines.

    With `in_steps` the encoder is a generator, `encode(message, max_bytes)`.
    """

    def __init__(self, version: int, *, flexible: bool, in_steps: bool = False) -> None:
        super().__init__(version, flexible=flexible)
        self._in_steps = in_steps
        self.namespace.update(_NAMESPACE)
        self._tag_writers: list[tuple[str, type[Struct]]] = []

    def message(self, cls: type[Struct]) -> None:
        with self.block("def encode(o, max_bytes):" if self._in_steps else "def encode(o):"):
            self.line("chunks = []")
            self.line("parts = []")
            self.line("put = parts.append")
            if self._in_steps:
                self.line("size = 0")
                # Make it a generator even if it has no arrays.
                self.line("yield")
            with self.block("try:"):
                self._struct(cls, "o")
                self._flush()
                with self.block("if parts:"):
                    self._join()
                self.line("return chunks")
            with self.block("except Misfit as error:"):
                title = f"{cls.__name__} version {self.version}"
                self.line(f"raise unfit({title!r}, error) from error")
        # Tagged fields are written without pauses.
        self._in_steps = False
        while self._tag_writers:
            self._tag_writer(*self._tag_writers.pop())

    def _struct(self, cls: type[Struct], source: str) -> None:
        for spec in fields_of(cls):
            if not spec.versions.includes(self.version) and not spec.ignorable:
                with self.block(f"if {self._is_set(spec, source)}:"):
                    self.line(f"raise unknown({spec.name!r}, {self.version})")
        for spec in present_fields(cls, self.version):
            nullable = spec.nullable.includes(self.version)
            self._value(spec.type, f"{source}.{spec.name}", nullable)
        if self.flexible:
            self._tags(cls, source)

    def _is_set(self, spec: FieldSpec, source: str) -> str:
        """The expression that tests whether the field differs from its default."""
        value = f"{source}.{spec.name}"
        if spec.default is None:
            return f"{value} is not None"
        if spec.default == ():
            return f"({value} is None or {value})" if spec.nullable.highest >= 0 else value
        if spec.default is False:
            return value
        default = (
            repr(spec.default)
            if isinstance(spec.default, int | str)
            else self.bind("default", spec.default)
        )
        if spec.type.struct is not None:
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"

    def _value(
        self, kind: FieldType, value: str, nullable: bool, *, is_tagged: bool = False
    ) -> None:
        """Write one value, an attribute or a variable."""
        if kind.kind in FIXED_FORMATS:
            self.run.append((FIXED_FORMATS[kind.kind], value))
        elif kind.kind == "struct":
            self._nested_struct(kind, value, nullable, is_tagged)
        elif kind.kind == "array":
            self._array(kind, value, nullable)
        elif kind.kind == "records":
            self._records(value)
        else:
            self._sized(kind.kind, value, nullable)

    def _nested_struct(self, kind: FieldType, value: str, nullable: bool, is_tagged: bool) -> None:
        """Write a struct; if nullable, after a byte: -1 for null, or 0 in a tagged field."""
        assert kind.struct is not None
        inside = self.variable("o")
        self.line(f"{inside} = {value}")
        if not nullable:
            self._struct(kind.struct, inside)
            return
        self._flush()
        with self.block(f"if {inside} is None:"):
            self.line(r"put(b'\0')" if is_tagged else r"put(b'\xff')")
        with self.block("else:"):
            self.run.append(("b", "1"))
            self._struct(kind.struct, inside)
            self._flush()

    def _length(self, letter: str, length: str, present: str | None) -> None:
        """Write a length or count; `present` is the expression for "not null", if nullable."""
        if not self.flexible:
            value = length if present is None else f"{length} if {present} else -1"
            self.run.append((letter, value))
            self._flush()
            return
        n = self.variable("n")
        value = f"{length} + 1" if present is None else f"{length} + 1 if {present} else 0"
        self.line(f"{n} = {value}")
        run = list(self.run)
        with self.block(f"if {n} < 128:"):
            self.run.append(("B", n))
            self._flush()
        with self.block("else:"):
            self.run = run
            self._flush()
            self.line(f"put(uvarint({n}))")

    def _sized(self, kind: str, value: str, nullable: bool) -> None:
        v = self.variable("v")
        letter = "h" if kind == "string" else "i"
        self.line(f"{v} = {value}")
        if not nullable:
            self._sized_content(kind, letter, v, value)
            return
        run = list(self.run)
        with self.block(f"if {v} is None:"):
            self.run.append(("B", "0") if self.flexible else (letter, "-1"))
            self._flush()
        with self.block("else:"):
            self.run = run
            self._sized_content(kind, letter, v, value)

    def _sized_content(self, kind: str, letter: str, v: str, name: str) -> None:
        data = v
        if kind == "string":
            data = self.variable("b")
            self.line(f"{data} = {v}.encode()")
        if name.endswith(".error_message"):
            # It may repeat text from a client, and so exceed the size limit of a string.
            with self.block(f"if len({data}) > {_ERROR_MESSAGE_BYTES_MAX}:"):
                self.line(f"{data} = {data}[:{_ERROR_MESSAGE_BYTES_MAX}] + b'...'")
        if kind == "string" and self.flexible:
            with self.block(f"if len({data}) > {STRING_SIZE_MAX}:"):
                self.line(f"raise ValueError({name!r} + ' is longer than a string may be')")
        self._length(letter, f"len({data})", None)
        self.line(f"put({data})")

    def _records(self, value: str) -> None:
        v, size = self.variable("v"), self.variable("s")
        self.line(f"{v} = {value}")
        # Avoid a call: this runs once for each partition of a fetch.
        in_memory = f"len({v}) if type({v}) in in_memory else {v}.nbytes"
        self.line(f"{size} = 0 if {v} is None else {in_memory}")
        self._length("i", size, f"{v} is not None")
        with self.block(f"if {size}:"):
            self._join()
            self.line(f"chunks.append({v})")
            self.line("parts.clear()")

    def _join(self) -> None:
        """Join the parts into one chunk."""
        if self._in_steps:
            self.line("size += sum(map(len, parts))")
            with self.block("if size > max_bytes:"):
                self.line("raise too_large(max_bytes)")
        self.line("chunks.append(join(parts))")

    def _array(self, kind: FieldType, value: str, nullable: bool) -> None:
        assert kind.element is not None
        elements, element = self.variable("a"), self.variable("o")
        self.line(f"{elements} = {value}")
        present = f"{elements} is not None" if nullable else None
        self._length("i", f"len({elements})", present)
        letter = FIXED_FORMATS.get(kind.element.kind)
        if letter is not None and len(letter) == 1:
            with self.block(f"if {elements}:"):
                self.line(f"put(pack_numbers(f'>{{len({elements})}}{letter}', *{elements}))")
            return
        with self.block(f"for {element} in {elements}{' or ()' if nullable else ''}:"):
            if kind.element.struct is not None:
                self._struct(kind.element.struct, element)
            else:
                self._value(kind.element, element, nullable=False)
            self._flush()
            if self._in_steps:
                with self.block(f"if len(parts) > {_JOINED_PARTS}:"):
                    self._join()
                    self.line("parts.clear()")
                self.line("yield")

    def _tags(self, cls: type[Struct], source: str) -> None:
        """If any tagged field is set, call the function that writes them; else write count 0."""
        tagged = tagged_fields(cls, self.version)
        if not tagged:
            self.run.append(("B", "0"))
            return
        name = f"tags_of_{self.bind(cls.__name__, cls)}"
        if name not in self.namespace:
            self.namespace[name] = None
            self._tag_writers.append((name, cls))
        run = list(self.run)
        with self.block(f"if {' or '.join(self._is_set(spec, source) for spec in tagged)}:"):
            self._flush()
            self.line(f"{name}({source}, put)")
        with self.block("else:"):
            self.run = [*run, ("B", "0")]
            self._flush()

    def _tag_writer(self, name: str, cls: type[Struct]) -> None:
        """Write the function that writes the count and each set field's tag, size and value."""
        tagged = tagged_fields(cls, self.version)
        with self.block(f"def {name}(o, put_outside):"):
            self.line("count = 0")
            self.line("fields = []")
            for spec in tagged:
                with self.block(f"if {self._is_set(spec, 'o')}:"):
                    self.line("count += 1")
                    self.line("parts = []")
                    self.line("put = parts.append")
                    nullable = spec.nullable.includes(self.version)
                    self._value(spec.type, f"o.{spec.name}", nullable, is_tagged=True)
                    self._flush()
                    self.line("value = join(parts)")
                    self.line(f"fields += (uvarint({spec.tag}), uvarint(len(value)), value)")
            self.line("put_outside(uvarint(count))")
            self.line("put_outside(join(fields))")

    def _flush(self) -> None:
        """Pack the collected run of fixed-size fields."""
        if not self.run:
            return
        letters = "".join(letter for letter, _ in self.run)
        values = ", ".join(value for _, value in self.run)
        self.run = []
        if letters == "B":
            # A count below 128, or no tagged fields: a look-up takes half the time of packing.
            self.line(r"put(b'\0')" if values == "0" else f"put(one_byte[{values}])")
            return
        self.line(f"put({self.bind('pack', big_endian(letters).pack)}({values}))")


def encoder_source(cls: type[Message], version: int, *, in_steps: bool = False) -> EncoderWriter:
    """The writer of the encoder for one version of `cls`, with its complete source."""
    writer = EncoderWriter(version, flexible=is_flexible(cls, version), in_steps=in_steps)
    writer.message(cls)
    return writer
