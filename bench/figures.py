"""What a benchmark leaves behind: a folder of plain files, one figure a line.

- `machine.json`: the machine, the versions, the options, when it began and ended;
- `figures.jsonl`: one `Figure` a line; a metric's unit is the end of its name (`p99_ms`);
- `failures.jsonl`: one `Failure` a line. A run that failed has a line here and no figure there,
  so that nothing averages over a broker that died;
- `histograms/*.hlog`: latencies as HdrHistogram writes them, an interval a second. The first line
  of each is a comment that says, in JSON, which run it is of;
- `logs/`: what the brokers of failed runs said last.

A run's lines are written when it has ended, in one piece, so that a benchmark that is stopped
leaves what it had measured. Everything about these files is in this module.
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
    """The folder holds no results, or not all of them can be read."""


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


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that gave no figures, a line of failures.jsonl. Runs to warm up are 0, -1, …"""

    scenario: str
    case: str
    target: str
    tiered: bool
    run: int
    reason: str


class RunKey(NamedTuple):
    """Which run of what at whom."""

    scenario: str
    case: str
    target: str
    tiered: bool
    run: int


class HistogramKey(NamedTuple):
    """Which histogram of which run; most runs have one, without a name."""

    scenario: str
    case: str
    target: str
    tiered: bool
    run: int
    name: str


class MetricKey(NamedTuple):
    """What figures of several runs have in common."""

    scenario: str
    case: str
    target: str
    tiered: bool
    metric: str


class Results(NamedTuple):
    """All that a folder holds."""

    machine: Mapping[str, object]
    figures: tuple[Figure, ...]
    failures: tuple[Failure, ...]
    histograms: Mapping[HistogramKey, Path]


class WritesHistogram(Protocol):
    """Latencies that know how to become a file."""

    def write(self, path: Path, comment: str) -> None: ...


def values_of(figures: Iterable[Figure]) -> dict[MetricKey, list[float]]:
    """The values of every metric, run after run."""
    values: dict[MetricKey, list[float]] = {}
    for each in figures:
        key = MetricKey(each.scenario, each.case, each.target, each.tiered, each.metric)
        values.setdefault(key, []).append(each.value)
    return values


def median_of(figures: Iterable[Figure]) -> dict[MetricKey, float]:
    """The median over the runs, of every metric."""
    return {key: statistics.median(values) for key, values in values_of(figures).items()}


# -- Writing ------------------------------------------------------------------------------------


class ResultsWriter:
    """Fills a results folder, run by run. Raises ResultsError if it holds results already."""

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
        """Write machine.json, or write it anew."""
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
        """All that a run which held gave."""
        for name, latencies in histograms.items():
            histogram = HistogramKey(*key, name)
            comment = json.dumps(histogram._asdict(), ensure_ascii=False)
            latencies.write(self._new_file("histograms", histogram, ".hlog"), comment)
        self._append("figures.jsonl", figures)

    def write_failure(self, failure: Failure, log: str = "") -> None:
        """That a run failed, and what the broker said last."""
        self._append("failures.jsonl", (failure,))
        if log:
            named = (failure.scenario, failure.case, failure.target, failure.tiered, failure.run)
            self._new_file("logs", HistogramKey(*named, ""), ".log").write_text(log, "utf-8")

    def _append(self, name: str, lines: Sequence[Figure | Failure]) -> None:
        texts = [json.dumps(dataclasses.asdict(line), ensure_ascii=False) for line in lines]
        with (self.directory / name).open("a", encoding="utf-8") as file:
            file.write("".join(text + "\n" for text in texts))
            file.flush()
            os.fsync(file.fileno())

    def _new_file(self, folder: str, key: HistogramKey, suffix: str) -> Path:
        """A path that people recognise; what it is of is said inside."""
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
"""What a key's value must be; text where nothing is said."""


def read_results(directory: Path) -> Results:
    """All that a benchmark left in the folder. Raises ResultsError, in one plain sentence."""
    if not directory.is_dir():
        raise ResultsError(f"{directory} is not a folder; `tierlog-bench run --out DIR` makes one.")
    if not (directory / "figures.jsonl").exists():
        raise ResultsError(f"{directory} holds no figures.jsonl: it is no folder of results.")
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
