"""The monthly cost: measured requests and bytes, multiplied by the user's price list.

The scenario `remote_tier` counts the broker's requests at the store: the number of each kind, and
the bytes, for each GB copied and each GB read back. The model uses only this from the measurement;
everything else comes from the user's price list and workload.

    tier      = GB kept + requests and bytes of copying produced data
                + requests and bytes of reading data back
    disks     = local retention × replicas, at the given fill level
    untiered  = the whole retention × replicas on disks, and nothing else

It leaves out what tiering does not change: the brokers, and traffic between them and to clients.
Requests for the later deletion of the copied data by retention are also not included.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .metric import in_figures, ratio_text
from .price_list import PriceList
from .spread import Cells, ScenarioCells, Series, by_scenario
from .tables import Table, TableCell

SCENARIO = "remote_tier"
_SECONDS_A_MONTH = 30 * 86_400
_HOURS_A_MONTH = 30 * 24


@dataclass(frozen=True, slots=True)
class CostReport:
    """The tables and notes about cost in the report."""

    notes: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests by kind and the bytes of one direction, for each GB of records."""

    write: float = 0.0
    read: float = 0.0
    list: float = 0.0
    delete: float = 0.0
    to_store: float = 0.0
    """Bytes sent to the store, for each byte of records."""
    from_store: float = 0.0

    def price(self, price_list: PriceList, gigabytes: float) -> float:
        """The cost of requests and transfer for some GB of records."""
        prices = price_list.prices
        requests = (
            self.write * prices.write_1000
            + self.read * prices.read_1000
            + self.list * prices.list_1000
            + self.delete * prices.delete_1000
        ) / 1000
        transfer = self.to_store * prices.written_gb + self.from_store * prices.read_gb
        return gigabytes * (requests + transfer)


@dataclass(frozen=True, slots=True)
class MonthlyCost:
    """The monthly cost of one case, in the list's currency."""

    stored: float
    copying: float
    reading: float
    disks: float
    untiered_disks: float

    @property
    def tiered(self) -> float:
        return self.stored + self.copying + self.reading + self.disks


TRAFFIC_METRICS: Mapping[str, str] = {
    "write": "write_requests_per_gb",
    "read": "read_requests_per_gb",
    "list": "list_requests_per_gb",
    "delete": "delete_requests_per_gb",
    "to_store": "to_store_ratio",
    "from_store": "from_store_ratio",
}
"""By field: the metric's name without `copy_` or `fetch_`."""


def monthly_cost(price_list: PriceList, copying: Traffic, reading: Traffic) -> MonthlyCost:
    """Compute the monthly cost."""
    prices, workload = price_list.prices, price_list.workload
    produced = workload.produced_mb_per_s / 1e3 * _SECONDS_A_MONTH
    kept = workload.produced_mb_per_s / 1e3 * workload.retention_days * 86_400
    here = workload.produced_mb_per_s / 1e3 * workload.local_retention_hours * 3_600
    filled = workload.disk_fill_percent / 100
    disk = prices.disk_gb_month * workload.replicas / filled if filled else 0.0
    return MonthlyCost(
        stored=kept * prices.stored_gb_month,
        copying=copying.price(price_list, produced),
        reading=reading.price(
            price_list, workload.read_from_tier_mb_per_s / 1e3 * _SECONDS_A_MONTH
        ),
        disks=min(here, kept) * disk,
        untiered_disks=kept * disk,
    )


def cost_report(cells: Cells, price_list: PriceList) -> CostReport:
    """The cost of the measured traffic, or one note on why there is none."""
    scenario = next((each for each in by_scenario(cells) if each.name == SCENARIO), None)
    traffic_by_case = None if scenario is None else _traffic(scenario)
    if not traffic_by_case:
        return CostReport(
            (f"There are no figures of {SCENARIO}, so there is nothing to price.",), ()
        )
    workload = price_list.workload
    notes = (
        f"Prices: {price_list.name}, as in the user's file; the harness contains no prices.",
        f"Load: {workload.produced_mb_per_s:g} MB/s produced and kept for "
        f"{workload.retention_days:g} days, {workload.local_retention_hours:g} hours of it on the "
        f"brokers' disks in {workload.replicas:g} copies at {workload.disk_fill_percent:g} % fill; "
        f"{workload.read_from_tier_mb_per_s:g} MB/s read back from the tier.",
        "Every segment takes some requests whatever its size. The requests for each GB are those "
        f"of the small segments of {SCENARIO}; larger segments need fewer.",
        "Costs that tiering does not change are left out: the brokers, and traffic to clients and "
        "between brokers.",
    )
    return CostReport(
        notes, (_requests_table(traffic_by_case), _money_table(traffic_by_case, price_list))
    )


TrafficByCase = Mapping[tuple[str, str], tuple[Traffic, Traffic]]
"""The traffic of copying and of reading, by target and case."""


def _traffic(scenario: ScenarioCells) -> TrafficByCase:
    traffic_by_case: dict[tuple[str, str], tuple[Traffic, Traffic]] = {}
    for series in scenario.series:
        for case in scenario.cases:
            directions = [_direction(scenario, case, series, name) for name in ("copy", "fetch")]
            copying, reading = directions
            if copying is not None and reading is not None:
                traffic_by_case[series.target, case] = copying, reading
    return traffic_by_case


def _direction(
    scenario: ScenarioCells, case: str, series: Series, direction: str
) -> Traffic | None:
    values: dict[str, float] = {}
    for field, metric in TRAFFIC_METRICS.items():
        measured = scenario.get(case, series, f"{direction}_{metric}")
        if measured is not None:
            values[field] = measured.median
    return Traffic(**values) if values else None


def _requests_table(traffic_by_case: TrafficByCase) -> Table:
    rows = [
        (
            TableCell(f"{target}, {case}"),
            TableCell(direction),
            *(
                TableCell(in_figures(value))
                for value in (
                    traffic.write,
                    traffic.read,
                    traffic.list,
                    traffic.delete,
                    traffic.to_store,
                    traffic.from_store,
                )
            ),
        )
        for (target, case), both in traffic_by_case.items()
        for direction, traffic in zip(("copied", "read back"), both, strict=True)
    ]
    head = ("case", "for each GB", "writes", "reads", "lists", "deletes")
    return Table(
        "Requests and bytes, counted in front of the store",
        (*head, "bytes to the store, per byte", "bytes from it, per byte"),
        tuple(rows),
        row_heads=2,
    )


def _money_table(traffic_by_case: TrafficByCase, price_list: PriceList) -> Table:
    rows: list[tuple[TableCell, ...]] = []
    for (target, case), (copying, reading) in traffic_by_case.items():
        cost = monthly_cost(price_list, copying, reading)
        amounts = (cost.stored, cost.copying, cost.reading, cost.disks, cost.tiered)
        ratio = cost.tiered / cost.untiered_disks if cost.untiered_disks else None
        rows.append(
            (
                TableCell(f"{target}, {case}"),
                *(TableCell(f"{amount:,.2f}") for amount in amounts),
                TableCell(f"{cost.untiered_disks:,.2f}"),
                TableCell(ratio_text(ratio)),
            )
        )
    head = ("case", "kept in the tier", "copying", "reading back", "brokers' disks", "tiered")
    return Table(
        f"A month, in {price_list.currency}",
        (*head, "untiered: disks alone", "tiered ÷ untiered"),
        tuple(rows),
    )
