"""The fields of a load as options of a client's command line, and back.

A load is a dataclass of numbers, texts and switches; `--record-bytes 100` is its `record_bytes`.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, fields
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

L = TypeVar("L", bound="DataclassInstance")


def options_of(load: "DataclassInstance") -> list[str]:
    """The options that say what a load is."""
    options: list[str] = []
    for name, value in asdict(load).items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            options += [option] if value else []
        else:
            options += [option, str(value)]
    return options


def parsed(
    parser: ArgumentParser, kind: type[L], arguments: Sequence[str] | None
) -> tuple[L, dict[str, str]]:
    """Read a command line with the options of a load: the load, and what else is given."""
    for field in fields(kind):
        option = "--" + field.name.replace("_", "-")
        if field.type is bool:
            parser.add_argument(option, action="store_true")
        else:
            is_required = field.default is MISSING
            default = None if is_required else field.default
            convert = cast("type[int | float | str]", field.type)
            parser.add_argument(option, type=convert, required=is_required, default=default)
    stated = cast("dict[str, str]", vars(parser.parse_args(arguments)))
    make: Callable[..., L] = kind
    return make(**{field.name: stated.pop(field.name) for field in fields(kind)}), stated
