"""Writes the two Grafana dashboards, `tierlog-broker.json` and `tierlog-tier.json`.

    make dashboards

A panel is a line here, and some fifty lines of JSON there. The test beside it compares the files
with what this module makes, and looks for every metric on the page of a broker.
"""

from pathlib import Path

from .broker_dashboard import BROKER
from .panels import as_json
from .tier_dashboard import TIER

HERE = Path(__file__).parent
DASHBOARDS = (BROKER, TIER)


def write(folder: Path = HERE) -> None:
    """Write both files."""
    for dashboard in DASHBOARDS:
        (folder / f"{dashboard.uid}.json").write_text(as_json(dashboard), encoding="utf-8")


if __name__ == "__main__":
    write()
