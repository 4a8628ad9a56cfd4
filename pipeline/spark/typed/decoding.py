"""Columns of Spark that decode bytes by a schema, inside the JVM.

A decoder is two columns. The first one attempts to decode; the second, over it, says what came of
it. They are apart because Spark computes a column once only if it is in a projection of its own.

Three traits of Spark's functions make a record that fits look like one that does not, or the
reverse, so each decoder wraps what it decodes:

- `from_avro` gives a bad record as a row of nulls, which is also how a good record may look, and
  reads no further than the schema says. Hence Avro bytes are decoded as a record of the value and
  of fixed bytes that are appended here: they come out whole only behind a whole value. They are by
  chance, a process's own: a record that ended with them would have them come out too early.
- `from_json` reads the first JSON value of a text and ignores the rest, so the text is also counted
  as the one item of an array.
- An Avro string may state a length of gigabytes in five bytes. Avro allocates it, and the executor
  ends, unless Avro's own limits are lower (`AVRO_LIMITS`).
"""

import json
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, functions as f
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import DataType, StringType, StructField, StructType

from ....clients.runtime.environment import SystemEnvironment
from .avro_schema import resolved_schema
from .json_schema import spark_type
from .registered_schema import AVRO, RegisteredSchema, Subject

_END = bytes(SystemEnvironment().random_uuid())
_CORRUPT = "tierlog_corrupt"
_JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_HEADER_BYTES = 5


class Decoder(Protocol):
    """How the bytes of a column become a value."""

    def attempt(self, content: Column) -> Column:
        """What Spark makes of the bytes."""
        ...

    def value(self, attempt: Column) -> Column:
        """The decoded value within an attempt."""
        ...

    def schema_id(self, content: Column) -> Column:
        """The schema id that the bytes state; null if they state none."""
        ...

    def reason(self, content: Column, attempt: Column) -> Column:
        """Why the bytes, which are not null, could not be decoded; null if they could be."""
        ...


@dataclass(frozen=True, slots=True)
class PlainJson:
    """JSON text of one type, without a registry's header."""

    data_type: DataType

    def attempt(self, content: Column) -> Column:
        return _json_attempt(content, self.data_type)

    def value(self, attempt: Column) -> Column:
        return attempt["value"]

    def schema_id(self, content: Column) -> Column:
        return f.lit(None).cast("bigint")

    def reason(self, content: Column, attempt: Column) -> Column:
        return _json_reason(content, attempt, f.lit("the schema"))


@dataclass(frozen=True, slots=True)
class Registered:
    """The wire format of schema registries: a zero byte, the id in four bytes, then the value."""

    subject: Subject

    def attempt(self, content: Column) -> Column:
        payload = _payload(content)
        if self.subject.newest.kind == AVRO:
            return self._avro_attempt(content, payload)
        newest = self.subject.newest
        data_type = spark_type(newest.parsed, newest.references)
        attempt = _json_attempt(payload, data_type)
        return f.when(self.schema_id(content).isin(*self.subject.schemas), attempt)

    def value(self, attempt: Column) -> Column:
        return attempt["value"]

    def schema_id(self, content: Column) -> Column:
        is_header = (f.length(content) >= _HEADER_BYTES) & (
            f.substring(content, 1, 1) == f.lit(b"\0")
        )
        # A bigint, as bytes from outside may state more than an id can be.
        stated = f.conv(f.hex(f.substring(content, 2, 4)), 16, 10).cast("bigint")
        return f.when(is_header, stated)

    def reason(self, content: Column, attempt: Column) -> Column:
        schema_id = self.schema_id(content)
        number = schema_id.cast("string")
        subject = f.lit(f" is not known for subject {self.subject.name}")
        unknown = f.concat(f.lit("schema id "), number, subject)
        if self.subject.newest.kind == AVRO:
            is_whole = f.coalesce(attempt["end"] == f.lit(_END), f.lit(False))
            reason = f.concat(f.lit("the bytes do not fit Avro schema "), number)
            misfit = f.when(~is_whole, reason)
        else:
            schema = f.lit(f"schema {self.subject.newest.schema_id}")
            misfit = _json_reason(_payload(content), attempt, schema)
        return (
            f.when(f.length(content) < _HEADER_BYTES, f.lit("fewer than 5 bytes: no schema id"))
            .when(schema_id.isNull(), f.lit("no schema id: the first byte is not 0"))
            .when(~schema_id.isin(*self.subject.schemas), unknown)
            .otherwise(misfit)
        )

    def _avro_attempt(self, content: Column, payload: Column) -> Column:
        reader = resolved_schema(self.subject.newest)
        options = {"mode": "PERMISSIVE", "avroSchema": _with_end(reader)}
        bytes_with_end = f.concat(payload, f.lit(_END))
        schema_id = self.schema_id(content)
        # Every branch has the type of the reader's schema.
        branches = [
            (number, from_avro(bytes_with_end, _writer(schema), options))
            for number, schema in self.subject.schemas.items()
        ]
        (first_id, first), *others = branches
        attempt = f.when(schema_id == first_id, first)
        for number, branch in others:
            attempt = attempt.when(schema_id == number, branch)
        return attempt


def _writer(schema: RegisteredSchema) -> str:
    return _with_end(resolved_schema(schema))


def _with_end(schema: object) -> str:
    end = {"type": "fixed", "name": "TierlogEnd", "size": len(_END)}
    fields = [{"name": "value", "type": schema}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "TierlogEnvelope", "fields": fields})


def _payload(content: Column) -> Column:
    return f.substring(content, _HEADER_BYTES + 1, 2**31 - 1)


def _json_attempt(content: Column, data_type: DataType) -> Column:
    wrapped = StructType([StructField("value", data_type), StructField(_CORRUPT, StringType())])
    text = f.concat(f.lit('{"value":'), content.cast("string"), f.lit("}"))
    return f.from_json(text, wrapped, _JSON_OPTIONS)


def _json_reason(content: Column, attempt: Column, schema: Column) -> Column:
    text = content.cast("string")
    items = f.json_array_length(f.concat(f.lit("["), text, f.lit("]")))
    return (
        f.when(~f.is_valid_utf8(text), f.lit("the bytes are not UTF-8"))
        .when(items.isNull() | (items != 1), f.lit("the text is not one JSON value"))
        .when(
            attempt[_CORRUPT].isNotNull(),
            f.concat(f.lit("the JSON value does not fit "), schema),
        )
    )
