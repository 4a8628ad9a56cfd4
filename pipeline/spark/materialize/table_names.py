"""Names the table of each topic, from a pattern with `{topic}`.

A path takes every name that a topic can have. Catalogs of Iceberg differ in what they take, so in a
name of Iceberg's every character but letters, digits and underscores becomes an underscore, and a
digit does not come first: such names need no quotes in SQL either. Then two topics may have one
name, as `a.b` and `a_b`, or in a catalog that ignores case `a` and `A`: the second one is refused.
"""

import re
from typing import NamedTuple

from ....clients.errors import KafkaError
from ..tables.export_state import ExportError, refusal

TOPIC = "{topic}"

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]")


class TableName(NamedTuple):
    """The table of a topic."""

    name: str
    note: str | None
    """A sentence, if the table could not have the topic's own name."""


class TableNames:
    """The tables that topics have; each name belongs to one topic."""

    def __init__(self, template: str, table_format: str) -> None:
        """Raises KafkaError(INVALID_CONFIG) if the template cannot name tables."""
        self._template = template
        self._is_sql = table_format == "iceberg"
        error = _template_error(template, table_format)
        if error is not None:
            raise error
        self._topics: dict[str, str] = {}
        """By the name as catalogs compare it."""

    def of(self, topic: str, suffix: str = "") -> TableName:
        """The table of a topic. Raises ExportError if another topic has that name."""
        own = topic + suffix
        shown = _sql_name(own) if self._is_sql else own
        name = self._template.replace(TOPIC, shown)
        key = name.lower() if self._is_sql else name
        other = self._topics.setdefault(key, topic)
        if other != topic:
            raise ExportError(
                f"The topics {other!r} and {topic!r} would share the table {name}: materialize one "
                "of them with another --table."
            )
        note = f"topic {topic!r} is the table {name}" if shown != own else None
        return TableName(name, note)


def _template_error(template: str, table_format: str) -> KafkaError | None:
    if TOPIC not in template:
        return refusal(
            f"--table {template} has no {TOPIC}, where the name of each topic belongs: a table "
            "holds one topic."
        )
    if table_format == "iceberg" and template.count(".") < 2:
        return refusal(
            f"An Iceberg table is catalog.namespace.table, such as lake.db.{TOPIC}: "
            f"{template!r} is not."
        )
    return None


def _sql_name(name: str) -> str:
    mapped = _NOT_IN_A_NAME.sub("_", name)
    return f"_{mapped}" if mapped[0].isdigit() else mapped
