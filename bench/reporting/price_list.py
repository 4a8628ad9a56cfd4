"""A price list, which the user gives: what a store charges, and the load that is to be paid for.

The harness knows no prices. They differ by vendor, region, contract and year; a file that the user
writes is the only source, and `prices.example.toml` shows its form with invented numbers. Every
field must be there and nothing else, so that no price is silently taken for nothing.
"""

import math
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar, cast


class PriceListError(Exception):
    """The file cannot be read as a price list."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What is charged, in the list's currency. GB are 10^9 bytes, a month is 30 days."""

    stored_gb_month: float
    """A GB in the remote tier for a month."""
    write_1000: float
    """A thousand requests that write: PUT, POST, and each part of an upload in parts."""
    read_1000: float
    """A thousand GET and HEAD requests."""
    list_1000: float
    """A thousand LIST requests."""
    delete_1000: float
    """A thousand DELETE requests."""
    read_gb: float
    """A GB that leaves the store towards the broker."""
    written_gb: float
    """A GB that is sent to the store."""
    disk_gb_month: float
    """A GB of a broker's own disk for a month."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is produced, kept and read."""

    produced_mb_per_s: float
    read_from_tier_mb_per_s: float
    retention_days: float
    local_retention_hours: float
    replicas: float
    """Copies of a record on brokers' disks; the tier holds one."""
    disk_fill_percent: float
    """How full disks are let become: the rest is paid for as well."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """A whole file."""

    name: str
    currency: str
    prices: Prices
    workload: Workload


_Part = TypeVar("_Part", Prices, Workload)


def read_price_list(path: Path) -> PriceList:
    """Read one. Raises PriceListError with one plain sentence."""
    try:
        parsed = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise PriceListError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise PriceListError(f"{path} is not TOML: {error}.") from None
    for name in ("name", "currency"):
        if not isinstance(parsed.get(name), str):
            raise PriceListError(f"{path} does not say its {name}.")
    if odd := sorted(set(parsed) - {"name", "currency", "prices", "workload"}):
        raise PriceListError(f"{path} has an unknown key {odd[0]!r}.")
    return PriceList(
        cast("str", parsed["name"]),
        cast("str", parsed["currency"]),
        _part(path, parsed, "prices", Prices),
        _part(path, parsed, "workload", Workload),
    )


def _part(path: Path, parsed: dict[str, object], section: str, kind: type[_Part]) -> _Part:
    stated = parsed.get(section)
    if not isinstance(stated, dict):
        raise PriceListError(f"{path} has no section [{section}].")
    entries = cast("dict[str, object]", stated)
    names = {each.name for each in fields(kind)}
    if odd := sorted(names ^ set(entries)):
        verb = "lacks" if odd[0] in names else "has an unknown key"
        raise PriceListError(f"[{section}] of {path} {verb} {odd[0]!r}.")
    numbers: dict[str, float] = {}
    for name, value in entries.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PriceListError(f"{name} of {path} is not a number.")
        if not math.isfinite(value) or value < 0:
            raise PriceListError(f"{name} of {path} is {value}.")
        numbers[name] = float(value)
    return kind(**numbers)
