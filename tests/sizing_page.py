"""docs/sizing.md: what its commands print, how good the model is, and what processes bring.

python -m tierlog.tests.sizing_page            what the commands print, anew
python -m tierlog.tests.sizing_page DIR...     that, and the tables of results folders of
                                               `tierlog-bench run sizing` or `run cores`
"""

import re
import shlex
import sys
from pathlib import Path

from tierlog.bench.command_line import build_parser
from tierlog.bench.figures import MetricKey, median_of, read_results
from tierlog.bench.scenarios.clusters.cores import SCENARIO as CORES
from tierlog.bench.sizing.costs import MEASURED
from tierlog.bench.sizing.fit import is_check, ratios
from tierlog.bench.sizing.runs import SCENARIO, IdleRun, LoadRun, read_runs
from tierlog.bench.sizing.size_command import size
from tierlog.bench.summary import number
from tierlog.tests.house_rules import ROOT

PAGE = ROOT / "docs" / "sizing.md"
_SHOWN = re.compile(
    r"(?P<command>^    tierlog-bench (?P<words>size .*)\n)(?P<between>(?:\n|[^ \n].*\n)*)"
    r"(?P<output>(?:    .*\n|\n(?=    ))+)",
    re.MULTILINE,
)
_RATIOS = re.compile(
    r"(?<=<!-- Model ÷ measured, written by tests/sizing_page.py. -->\n\n)(?:\|.*\n)+"
)
_CORES = re.compile(
    r"(?<=<!-- What processes bring, written by tests/sizing_page.py. -->\n\n)(?:\|.*\n)+"
)
_SHAPES = {
    f"{direction}_{kib}_kib": f"{direction}, {kib} KiB"
    for direction in ("produce", "consume")
    for kib in (2, 16, 128)
}
_MEANINGS = {
    "resident_mib": "memory of a node",
    "idle_cpu_s_per_minute": "CPU of an idle node",
    "open_files": "open files of a node",
    "restart_s": "start of a broker",
    "metadata_mb": "metadata log",
    "failover_s": "failover of a broker's partitions",
    "leader_cores": "CPU of a leader",
    "follower_cores": "CPU of a follower",
    "answered_per_s": "fetches a second",
}


def with_outputs(text: str) -> str:
    """The page with what its commands print now."""

    def shown(match: re.Match[str]) -> str:
        printed = size(build_parser().parse_args(shlex.split(match["words"])))
        lines = [f"    {line}".rstrip() + "\n" for line in printed.splitlines()]
        return match["command"] + match["between"] + "".join(lines)

    return _SHOWN.sub(shown, text)


def with_ratios(text: str, directory: Path) -> str:
    """The page with model ÷ measured of a results folder. Raises ResultsError."""
    idle, loads = read_runs(directory)
    runs: list[IdleRun | LoadRun] = [*idle, *loads]
    checks = {each.metric: each for each in ratios(filter(is_check, runs), MEASURED)}
    rows = [
        "| figure | cases | model ÷ measured: least, median, most | of those not fitted |\n",
        "|---|---|---|---|\n",
    ]
    for each in ratios(runs, MEASURED):
        check = checks[each.metric]
        rows.append(
            f"| {_MEANINGS[each.metric]} | {each.cases} | {each.least:.2f}, {each.median:.2f}, "
            f"{each.most:.2f} | {check.cases}: {check.least:.2f} to {check.most:.2f} |\n"
        )
    return _RATIOS.sub("".join(rows), text)


def with_cores(text: str, directory: Path) -> str:
    """The page with MB/s, CPU and the busiest process of each case. Raises ResultsError."""
    medians = median_of(read_results(directory).figures)
    rows = ["| | " + " | ".join(_SHAPES.values()) + " |\n", "|---|" + "---|" * len(_SHAPES) + "\n"]
    for case, target in dict.fromkeys((key.case, key.target) for key in medians):
        cells = [
            " / ".join(
                number(medians[MetricKey(CORES.name, case, target, False, f"{shape}_{metric}")])
                for metric in ("mb_per_s", "broker_cpu_s_per_gb", "busiest_process_cores")
            )
            for shape in _SHAPES
        ]
        rows.append(f"| {target}, {case} | " + " | ".join(cells) + " |\n")
    return _CORES.sub("".join(rows), text)


def with_tables(text: str, directory: Path) -> str:
    """The page with the table of a results folder of either scenario. Raises ResultsError."""
    names = {figure.scenario for figure in read_results(directory).figures}
    if SCENARIO in names:
        text = with_ratios(text, directory)
    return with_cores(text, directory) if CORES.name in names else text


def main(arguments: list[str]) -> None:
    text = with_outputs(PAGE.read_text())
    for directory in arguments:
        text = with_tables(text, Path(directory))
    PAGE.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
