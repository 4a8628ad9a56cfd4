"""`--value-format` and what goes with it: typed columns for the tables of `materialize`.

The schemas of a topic are asked for in each round, once its end is known: a producer registers a
schema before it writes the first record of it.
"""

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from ..jobs.export import RowMapping
from ..known_jars import AVRO
from ..tables.export_state import refusal
from .table_names import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..typed.registered_schema import Subject
    from ..typed.typed_columns import JsonType

USER_VARIABLE = "TIERLOG_SCHEMA_REGISTRY_USER"
_AVRO, _JSON_SCHEMA, _JSON = VALUE_FORMATS = ("avro", "json-schema", "json")
_KINDS = {_AVRO: "AVRO", _JSON_SCHEMA: "JSON"}


def add_value_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that say how values become columns."""
    parser.add_argument(
        "--value-format",
        choices=VALUE_FORMATS,
        help="a column for each field of the values: avro and json-schema with the ids of a schema "
        "registry, json without (default: values stay bytes)",
    )
    parser.add_argument(
        "--schema-registry",
        metavar="URL",
        help="the registry of the subjects TOPIC-value (Confluent's API); its login is "
        f"{USER_VARIABLE}=name:password in the environment",
    )
    parser.add_argument("--schema-registry-ca", metavar="FILE", help="a CA that it is trusted by")
    parser.add_argument(
        "--schemas",
        metavar="FILE",
        help="in the place of a registry, a file of Schemas.save; for json, the JSON Schema of a "
        "topic's values, with {topic} in the place of the topic's name",
    )
    parser.add_argument(
        "--on-undecodable",
        choices=("column", "fail"),
        default="column",
        help="column: a value that cannot be decoded is null in the typed columns, and the column "
        "undecoded says why; fail: its topic fails (default: column)",
    )


def value_jars(options: Namespace) -> tuple[str, ...]:
    """The jars that the format of the values needs."""
    return (AVRO,) if options.value_format == _AVRO else ()


class ValueColumns:
    """Makes the mapping of each topic's rows."""

    def __init__(self, options: Namespace) -> None:
        """Raises SchemaError if the registry or the file of the arguments cannot be used."""
        from ..typed.registry import SchemaRegistry
        from ..typed.schemas import Schemas

        self._format: str = options.value_format
        self._path: str | None = options.schemas
        self._on_error = "fail" if options.on_undecodable == "fail" else "undecoded"
        self._registry: SchemaRegistry | None = None
        self._schemas: dict[str, Schemas] = {}
        """By topic, so that a round of a topic asks for its own subject alone."""
        self._of_file: Schemas | None = None
        if options.schema_registry is not None:
            user = os.environ.get(USER_VARIABLE)
            ca_file = options.schema_registry_ca
            self._registry = SchemaRegistry(options.schema_registry, user=user, ca_file=ca_file)
        elif self._format != _JSON:
            self._of_file = Schemas.of_file(options.schemas)

    def of(self, topic: str) -> RowMapping:
        """The mapping by the schemas of this moment. Raises SchemaError if they cannot be used."""
        schema = self._schema(topic)

        def mapping(rows: "DataFrame") -> "DataFrame":
            from ..typed.table_columns import with_value_columns

            return with_value_columns(rows, schema, ("date",), on_error=self._on_error)

        return mapping

    def _schema(self, topic: str) -> "Subject | JsonType":
        from ..typed.registered_schema import SchemaError
        from ..typed.schema_file import read_json_schema
        from ..typed.schemas import Schemas

        if self._format == _JSON:
            return read_json_schema((self._path or "").replace(TOPIC, topic))
        if self._of_file is not None:
            subject = self._of_file.value_of(topic)
        elif topic in self._schemas:
            self._schemas[topic].refresh()
            subject = self._schemas[topic].value_of(topic)
        else:
            schemas = Schemas(self._registry)
            subject = schemas.value_of(topic)
            self._schemas[topic] = schemas
        if subject.newest.kind != _KINDS[self._format]:
            raise SchemaError(
                f"The schemas of subject {subject.name!r} are of type {subject.newest.kind}, and "
                f"not of --value-format {self._format}"
            )
        return subject


def _check(options: Namespace) -> None:
    """Raise KafkaError(INVALID_CONFIG) if an argument is missing or has no use."""
    stated = [
        name
        for name in ("schema_registry", "schema_registry_ca", "schemas")
        if getattr(options, name) is not None
    ]
    if options.value_format is None:
        if stated or options.on_undecodable != "column":
            name = (stated or ["on_undecodable"])[0].replace("_", "-")
            raise refusal(f"--{name} is of no use without --value-format.")
    elif options.value_format == _JSON:
        if stated != ["schemas"]:
            raise refusal("--value-format json needs --schemas FILE, and no registry.")
    elif ("schema_registry" in stated) == ("schemas" in stated):
        raise refusal(
            f"--value-format {options.value_format} needs either --schema-registry URL or "
            "--schemas FILE."
        )


def value_columns(options: Namespace) -> ValueColumns | None:
    """What maps the rows, if the arguments ask for it.

    Raises KafkaError(INVALID_CONFIG) if the arguments do not fit, and SchemaError.
    """
    _check(options)
    return None if options.value_format is None else ValueColumns(options)
