"""Avro schemas as Spark's `from_avro` can take them.

Schemas that a schema refers to are put where their name is first used. Spark expands each named
type wherever it is used, so a few lines can stand for billions of columns: the expanded size is
bounded. A recursive schema has no type in Spark.

https://avro.apache.org/docs/1.12.0/specification/
"""

from collections.abc import Iterable, Mapping
from typing import cast

from .registered_schema import RegisteredSchema, SchemaError, list_of, object_of, parsed_json

MAX_DEPTH = 64
MAX_NODES = 10_000
MAX_FIXED_BYTES = 64 << 20
"""Avro allocates a fixed before it reads it, so this is the bound of strings (`AVRO_LIMITS`)."""

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})


def resolved_schema(schema: RegisteredSchema) -> object:
    """The Avro schema as JSON values, with what it refers to in place.

    Raises SchemaError if it is not valid, recursive, too deep or too large, or has arrays whose
    items take no bytes, of which a few bytes of a record can state billions, or a huge fixed.
    """
    return _Resolver(schema).resolved()


class _Resolver:
    def __init__(self, schema: RegisteredSchema) -> None:
        self._schema = schema
        self._what = f"Avro schema {schema.schema_id}"
        self._open: set[str] = set()
        self._sizes: dict[str, int] = {}
        """Expanded sizes of the named types that are complete."""
        self._empty: set[str] = set()
        """Records and fixed types that take no bytes."""

    def resolved(self) -> object:
        return self._node(self._schema.parsed, "", 0)[0]

    def _error(self, problem: str) -> SchemaError:
        return SchemaError(f"{self._what} {problem}")

    def _node(self, node: object, namespace: str, depth: int) -> tuple[object, int]:
        """A schema and its expanded size."""
        if depth > MAX_DEPTH:
            raise self._error(f"is nested more than {MAX_DEPTH} deep")
        if isinstance(node, str):
            return self._named_by(node, namespace, depth)
        if isinstance(node, list):
            branches = [
                self._node(each, namespace, depth + 1) for each in cast("list[object]", node)
            ]
            return [each for each, _ in branches], self._sum(size for _, size in branches)
        if not isinstance(node, dict):
            raise self._error(f"has {str(node)[:40]!r} where a type should be")
        return self._complex(cast("dict[str, object]", node), namespace, depth)

    def _complex(self, node: dict[str, object], namespace: str, depth: int) -> tuple[object, int]:
        kind = node.get("type")
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            if part not in node:
                raise self._error(f"has {'an array' if kind == 'array' else 'a map'} of nothing")
            inner, size = self._node(node[part], namespace, depth + 1)
            if kind == "array" and self._takes_no_bytes(inner):
                raise self._error("has an array whose items take no bytes, which is not supported")
            return {**node, part: inner}, self._sum((size,))
        if isinstance(kind, str) and kind in _NAMED:
            return self._definition(node, kind, namespace, depth)
        inner, size = self._node(kind, namespace, depth + 1)
        return {**node, "type": inner}, size

    def _definition(
        self, node: dict[str, object], kind: str, namespace: str, depth: int
    ) -> tuple[object, int]:
        name = self._text(node.get("name"), "a name")
        if "." in name:
            full, inner_namespace = name, name.rpartition(".")[0]
        else:
            stated = node.get("namespace")
            inner_namespace = namespace if stated is None else self._text(stated, "a namespace")
            full = f"{inner_namespace}.{name}" if inner_namespace else name
        if full in self._sizes or full in self._open:
            raise self._error(f"defines {full[:80]!r} twice")
        # The namespace is stated, as this may come to stand within another one.
        resolved = {**node, "name": full.rpartition(".")[2], "namespace": inner_namespace}
        size = 1
        if kind in ("record", "error"):
            self._open.add(full)
            fields, size = self._fields(node, inner_namespace, depth)
            self._open.discard(full)
            resolved["fields"] = fields
            if all(self._takes_no_bytes(field["type"]) for field in fields):
                self._empty.add(full)
        if kind == "fixed":
            self._check_fixed(full, node.get("size"))
        self._sizes[full] = size
        return resolved, size

    def _check_fixed(self, full: str, size: object) -> None:
        if type(size) is not int or not 0 <= size <= MAX_FIXED_BYTES:
            shown = f"{size!r}"[:20]
            raise self._error(
                f"has the fixed {full[:80]!r} of {shown} bytes, and not of 0 to {MAX_FIXED_BYTES}"
            )
        if not size:
            self._empty.add(full)

    def _fields(
        self, node: dict[str, object], namespace: str, depth: int
    ) -> tuple[list[dict[str, object]], int]:
        fields: list[dict[str, object]] = []
        sizes: list[int] = []
        for each in list_of(node.get("fields"), f"What {self._what} has as fields"):
            field = object_of(each, f"A field of {self._what}")
            if "type" not in field:
                raise self._error("has a field without a type")
            inner, size = self._node(field["type"], namespace, depth + 1)
            fields.append({**field, "type": inner})
            sizes.append(size)
        return fields, self._sum(sizes)

    def _named_by(self, name: str, namespace: str, depth: int) -> tuple[object, int]:
        if name in _PRIMITIVES:
            return name, 1
        candidates = [name]
        if "." not in name and namespace:
            candidates.insert(0, f"{namespace}.{name}")
        for full in candidates:
            if full in self._open:
                raise self._error(f"is recursive at {full[:80]!r}, which Spark has no type for")
            if full in self._sizes:
                return full, self._sum((self._sizes[full],))
            if full in self._schema.references:
                text = self._schema.references[full]
                what = f"What {self._what} refers to as {full[:80]!r}"
                node = self._node(parsed_json(text, what), "", depth + 1)
                if full not in self._sizes or isinstance(node[0], list):
                    raise SchemaError(f"{what} does not define it")
                return node
        raise self._error(f"has the unknown type {name[:80]!r}")

    def _takes_no_bytes(self, node: object) -> bool:
        if isinstance(node, str):
            return node == "null" or node in self._empty
        if not isinstance(node, dict):
            return False
        stated = cast("Mapping[str, object]", node)
        kind = stated.get("type")
        if isinstance(kind, str) and kind in _NAMED:
            name, namespace = stated.get("name"), stated.get("namespace")
            return f"{namespace}.{name}".lstrip(".") in self._empty
        return self._takes_no_bytes(kind)

    def _sum(self, sizes: Iterable[int]) -> int:
        total = 1 + sum(sizes)
        if total > MAX_NODES:
            raise self._error(f"stands for more than {MAX_NODES} columns")
        return total

    def _text(self, value: object, what: str) -> str:
        if not isinstance(value, str) or (not value and what == "a name"):
            raise self._error(f"has a type without {what}")
        return value
