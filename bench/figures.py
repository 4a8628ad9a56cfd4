"""The results of a benchmark: a folder of plain files, one figure per line.

- `machine.json`: the machine, the versions, the options, the start and end times;
- `figures.jsonl`: one `Figure` per line; a metric's name ends with its unit (`p99_ms`);
- `failures.jsonl`: one `Failure` per line. A failed run has a line here and none in
  `figures.jsonl`, so that no average includes a broker that died;
- `histograms/*.hlog`: latencies in the HdrHistogram log format, one interval per second. The first
  line of each is a comment that identifies the run, in JSON;
- `logs/`: the ends of the logs of brokers with failed runs.

A run's lines are written together at its end, so that an interrupted benchmark keeps the results of
finished runs. Only this module reads and writes these files.
"""

import dataclasses
import json
import os
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, cast


class ResultsError(Exception):
    """The folder has no results, or unreadable ones."""


class RunKey(NamedTuple):
    """Identifies a run of a case at a target."""

    scenario: str
    case: str
    target: str
    tiered: bool
    run: int


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one run, a line of figures.jsonl. Counted runs are 1, 2, …"""

    scenario: str
    case: str
    target: str
    tiered: bool
    metric: str
    value: float
    run: int

    @property
    def key(self) -> RunKey:
        return RunKey(self.scenario, self.case, self.target, self.tiered, self.run)


@dataclass(frozen=True, slots=True)
class Failure:
    """A run without figures, a line of failures.jsonl. Warm-up runs are 0, -1, …"""

    scenario: str
    case: str
    target: str
    tiered: bool
    run: int
    reason: str

    @property
    def key(self) -> RunKey:
        return RunKey(self.scenario, self.case, self.target, self.tiered, self.run)


class HistogramKey(NamedTuple):
    """Identifies a histogram of a run; most runs have one, with an empty name."""

    scenario: str
    case: str
    target: str
    tiered: bool
    run: int
    name: str


class MetricKey(NamedTuple):
    """Identifies a figure apart from its run."""

    scenario: str
    case: str
    target: str
    tiered: bool
    metric: str


class Results(NamedTuple):
    """The contents of a results folder."""

    machine: Mapping[str, object]
    figures: tuple[Figure, ...]
    failures: tuple[Failure, ...]
    histograms: Mapping[HistogramKey, Path]


class WritesHistogram(Protocol):
    """Latencies that can be written to a file."""

    def write(self, path: Path, comment: str) -> None: ...


def values_of(figures: Iterable[Figure]) -> dict[MetricKey, list[float]]:
    """The values of every metric, run by run."""
    values: dict[MetricKey, list[float]] = {}
    for figure in figures:
        key = MetricKey(figure.scenario, figure.case, figure.target, figure.tiered, figure.metric)
        values.setdefault(key, []).append(figure.value)
    return values


def median_of(figures: Iterable[Figure]) -> dict[MetricKey, float]:
    """The median of every metric over the runs."""
    return {key: statistics.median(values) for key, values in values_of(figures).items()}


# -- Writing ------------------------------------------------------------------------------------


class ResultsWriter:
    """Writes a results folder, run by run. Raises ResultsError if it already has results."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if (directory / "figures.jsonl").exists():
            raise ResultsError(
                f"{directory} holds the results of an earlier run; choose another --out, "
                "or delete it."
            )
        try:
            (directory / "histograms").mkdir(parents=True, exist_ok=True)
            for name in ("figures.jsonl", "failures.jsonl"):
                (directory / name).touch()
        except OSError as error:
            raise ResultsError(f"{directory} cannot hold results: {error.strerror}.") from error

    def write_machine(self, facts: Mapping[str, object]) -> None:
        """Write or replace machine.json."""
        path = self.directory / "machine.json"
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", "utf-8")
        unfinished.replace(path)

    def write_run(
        self,
        key: RunKey,
        figures: Sequence[Figure],
        histograms: Mapping[str, WritesHistogram],
    ) -> None:
        """Write the results of a successful run."""
        for name, latencies in histograms.items():
            histogram = HistogramKey(*key, name)
            comment = json.dumps(histogram._asdict(), ensure_ascii=False)
            latencies.write(self._new_file("histograms", histogram, ".hlog"), comment)
        self._append("figures.jsonl", figures)

    def write_failure(self, failure: Failure, log: str = "") -> None:
        """Write a failed run, and the end of its broker's log."""
        self._append("failures.jsonl", (failure,))
        if log:
            self._new_file("logs", HistogramKey(*failure.key, ""), ".log").write_text(log, "utf-8")

    def _append(self, name: str, lines: Sequence[Figure | Failure]) -> None:
        texts = [json.dumps(dataclasses.asdict(line), ensure_ascii=False) for line in lines]
        with (self.directory / name).open("a", encoding="utf-8") as file:
            file.write("".join(text + "\n" for text in texts))
            file.flush()
            os.fsync(file.fileno())

    def _new_file(self, folder: str, key: HistogramKey, suffix: str) -> Path:
        """An unused, readable path; the file itself identifies its run."""
        (self.directory / folder).mkdir(exist_ok=True)
        kind = "tiered" if key.tiered else "untiered"
        words = [key.scenario, key.case, key.target, kind, f"run{key.run}", key.name]
        stem = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", word) for word in words if word)
        path = self.directory / folder / f"{stem}{suffix}"
        number = 1
        while path.exists():
            number += 1
            path = path.with_name(f"{stem}.{number}{suffix}")
        return path


# -- Reading ------------------------------------------------------------------------------------

_Line = TypeVar("_Line", Figure, Failure, HistogramKey)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "tiered": (bool,),
    "run": (int,),
    "value": (int, float),
}
"""The types of a key's value; text if not listed."""


def read_results(directory: Path) -> Results:
    """Read a results folder. Raises ResultsError."""
    if not directory.is_dir():
        raise ResultsError(f"{directory} is not a folder; `tierlog-bench run --out DIR` makes one.")
    if not (directory / "figures.jsonl").exists():
        raise ResultsError(f"{directory} holds no figures.jsonl: it is not a results folder.")
    histograms: dict[HistogramKey, Path] = {}
    for path in sorted((directory / "histograms").glob("*.hlog")):
        with path.open(encoding="utf-8", errors="replace") as file:
            comment = file.readline()
        if not comment.startswith("#"):
            raise ResultsError(f"{path} does not say which run it is of.")
        histograms[_parse(comment[1:], HistogramKey, str(path))] = path
    return Results(
        _read_machine(directory / "machine.json"),
        tuple(_read_lines(directory / "figures.jsonl", Figure)),
        tuple(_read_lines(directory / "failures.jsonl", Failure)),
        histograms,
    )


def _read_machine(path: Path) -> Mapping[str, object]:
    try:
        facts: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read: {error}.") from error
    if not isinstance(facts, dict):
        raise ResultsError(f"{path} is not a JSON object.")
    return cast("dict[str, object]", facts)


def _read_lines(path: Path, kind: type[_Line]) -> Iterable[_Line]:
    if not path.exists():
        return
    lines = path.read_text("utf-8", errors="replace").split("\n")
    if lines[-1]:
        raise ResultsError(f"The last line of {path} is torn; delete it to use the rest.")
    for number, line in enumerate(lines[:-1], 1):
        yield _parse(line, kind, f"line {number} of {path}")


def _parse(line: str, kind: type[_Line], where: str) -> _Line:
    try:
        read: object = json.loads(line)
    except ValueError:
        raise ResultsError(f"{where} is not JSON.") from None
    if not isinstance(read, dict):
        raise ResultsError(f"{where} is not a JSON object.")
    fields = cast("dict[str, object]", read)
    names = list(kind.__annotations__)
    if odd := sorted(set(fields) ^ set(names)):
        verb = "lacks" if odd[0] in names else "has an unknown key"
        raise ResultsError(f"{where} {verb} {odd[0]!r}.")
    for name, value in fields.items():
        if type(value) not in _KINDS.get(name, (str,)):
            raise ResultsError(f"{where} says {value!r} for {name!r}.")
    # Checked above, key by key.
    return kind(**fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
