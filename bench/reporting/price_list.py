"""The user's price list: what a store charges, and the workload to price.

The harness contains no prices, which differ by vendor, region, contract and year. The user's file
is the only source; `prices.example.toml` shows its format with invented numbers. It must have
exactly the defined fields, so that no missing price is silently taken for zero.
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
    """The prices, in the list's currency. A GB is 10^9 bytes, a month is 30 days."""

    stored_gb_month: float
    """A GB in the remote tier for a month."""
    write_1000: float
    """A thousand write requests: PUT, POST, and each part of a multipart upload."""
    read_1000: float
    """A thousand GET and HEAD requests."""
    list_1000: float
    """A thousand LIST requests."""
    delete_1000: float
    """A thousand DELETE requests."""
    read_gb: float
    """A GB sent from the store to the broker."""
    written_gb: float
    """A GB sent to the store."""
    disk_gb_month: float
    """A GB of a broker's own disk for a month."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The amounts produced, retained and read."""

    produced_mb_per_s: float
    read_from_tier_mb_per_s: float
    retention_days: float
    local_retention_hours: float
    replicas: float
    """Copies of a record on brokers' disks; the tier holds one."""
    disk_fill_percent: float
    """How full disks may become; the free space costs as much."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """The contents of a price list file."""

    name: str
    currency: str
    prices: Prices
    workload: Workload


_Part = TypeVar("_Part", Prices, Workload)


def read_price_list(path: Path) -> PriceList:
    """Read a price list. Raises PriceListError."""
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
    names = {field.name for field in fields(kind)}
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
