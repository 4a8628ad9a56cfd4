"""What a report has, before it is written in either of its forms."""

from dataclasses import dataclass

from ..figures import Failure
from .cost import CostReport
from .kip405_published import KIP_URL
from .overview import Overview
from .plots import Plot
from .tables import Table


@dataclass(frozen=True, slots=True)
class Section:
    """One scenario of the report: its summary, tables and plots."""

    name: str
    summary: str
    runs: str
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    published: Table | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The contents of both forms of the report."""

    title: str
    facts: tuple[tuple[str, str], ...]
    details: tuple[tuple[str, str], ...]
    refused: tuple[str, ...]
    failures: tuple[Failure, ...]
    overview: Overview
    sections: tuple[Section, ...]
    cost: CostReport | None
    kip_url: str = KIP_URL

    @property
    def plots(self) -> list[Plot]:
        plots = [*self.overview.plots]
        for section in self.sections:
            plots += section.plots
        return plots
