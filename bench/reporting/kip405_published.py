"""The figures published in KIP-405, to show next to ours.

The KIP's authors ran five brokers with 20 cores and 22 hard disks each, 6,300 partitions with three
replicas, and HDFS as the tier. Their milliseconds cannot be compared with those of one machine, but
the effect of tiering can. Latencies are produce latencies, averaged over the brokers (in the third
case the maximum of that average); workload 1 is acks=all, workload 2 acks=1.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .metric import Better, ratio_text
from .spread import Measured, ScenarioCells, Series, ratio_of
from .tables import Table, TableCell, ratio_cell, value_cell

KIP_URL = "https://cwiki.apache.org/confluence/display/KAFKA/KIP-405%3A+Kafka+Tiered+Storage"


@dataclass(frozen=True, slots=True)
class Published:
    """One row of the KIP's tables."""

    scenario: str
    acks: str
    figure: str
    unit: str
    tiered: float
    untiered: float
    metrics: tuple[str, ...]
    """Our metrics for the same figure."""

    @property
    def ratio(self) -> float:
        return self.tiered / self.untiered


_P99, _P95 = ("produce_p99_ms",), ("produce_p95_ms",)
_DURATION = ("seconds",)

PUBLISHED = (
    Published("kip405_normal", "all", "p99", "ms", 25, 21, _P99),
    Published("kip405_normal", "all", "p95", "ms", 14, 13, _P95),
    Published("kip405_normal", "1", "p99", "ms", 9, 9, _P99),
    Published("kip405_normal", "1", "p95", "ms", 4, 4, _P95),
    Published("kip405_catch_up", "all", "p99", "ms", 42, 60, _P99),
    Published("kip405_catch_up", "all", "p95", "ms", 18, 30, _P95),
    Published("kip405_catch_up", "1", "p99", "ms", 10, 10, _P99),
    Published("kip405_catch_up", "1", "p95", "ms", 5, 4, _P95),
    Published("kip405_rebuild", "all", "p99", "ms", 56, 490, _P99),
    Published("kip405_rebuild", "all", "p95", "ms", 23, 290, _P95),
    Published("kip405_rebuild", "all", "duration", "min", 2, 230, _DURATION),
    Published("kip405_rebuild", "1", "p99", "ms", 12, 10, _P99),
    Published("kip405_rebuild", "1", "p95", "ms", 6, 5, _P95),
    Published("kip405_rebuild", "1", "duration", "min", 4, 520, _DURATION),
)


def published_table(scenario: ScenarioCells) -> Table | None:
    """The KIP's rows of this scenario next to ours; None if the KIP does not have it."""
    rows = [each for each in PUBLISHED if each.scenario == scenario.name]
    if not rows:
        return None
    targets = list(dict.fromkeys(series.target for series in scenario.series))
    head = ["acks", "produce latency, or duration", "KIP-405 tiered", "untiered", "ratio"]
    for target in targets:
        head += [f"{target} tiered", "untiered", "ratio"]
    return Table(
        "KIP-405's own figures, and ours",
        tuple(head),
        tuple(_row(scenario, row, targets) for row in rows),
        row_heads=2,
    )


def _row(scenario: ScenarioCells, row: Published, targets: Sequence[str]) -> tuple[TableCell, ...]:
    cells = [
        TableCell(row.acks),
        TableCell(row.figure),
        TableCell(f"{row.tiered:g} {row.unit}"),
        TableCell(f"{row.untiered:g} {row.unit}"),
        TableCell(ratio_text(row.ratio)),
    ]
    for target in targets:
        pair = _ours(scenario, row, target)
        if pair is None:
            cells += [TableCell("–")] * 3
            continue
        over, under, unit = pair
        cells += [_with_unit(value_cell(each), unit) for each in (over, under)]
        cells.append(ratio_cell(ratio_of(over, under), Better.LOWER))
    return tuple(cells)


def _with_unit(cell: TableCell, unit: str) -> TableCell:
    return cell if cell.text == "–" else TableCell(f"{cell.text} {unit}", cell.spread)


def _ours(
    scenario: ScenarioCells, row: Published, target: str
) -> tuple[Measured | None, Measured | None, str] | None:
    """Our figures for a row, tiered and untiered, and their unit: of the largest amount of data,
    which is the last case."""
    for case in reversed(scenario.cases):
        if not re.search(rf"acks[ =_-]?{row.acks}\b", case):
            continue
        for name in scenario.with_case(case).metrics:
            if name not in row.metrics:
                continue
            over = scenario.get(case, Series(target, True), name)
            under = scenario.get(case, Series(target, False), name)
            if over is not None or under is not None:
                return over, under, "ms" if name.endswith("_ms") else "s"
    return None
