"""The page of a torture run: one file of HTML without any other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..harness.checker.acknowledged import NAMED_WHERE_THERE, Wrong
from .figures import percentiles, sentence_of
from .outcome import Outcome
from .pictures import bucket_s, pictures, rates

_VIOLATIONS_SHOWN = 50


class Table(NamedTuple):
    """A table: its caption, heads, and rows of texts; the first columns are names."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1


def page_of(outcome: Outcome) -> str:
    """The page as text."""
    here = FileSystemLoader(Path(__file__).parent)
    templates = Environment(
        loader=here,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = [(picture, Markup(picture.svg)) for picture in pictures(outcome)]  # ours
    return templates.get_template("torture.html.jinja").render(
        outcome=outcome,
        sentence=sentence_of(outcome),
        verdict=_verdict(outcome),
        pictures=drawn,
        kinds=_kinds(outcome),
        clients=_clients(outcome),
        copies=_copies(outcome),
        histories=_histories(outcome),
        rates=_rates(outcome),
        faults=_faults(outcome),
        in_sync=_in_sync(outcome),
        violations=[
            (who, str(violation.wrong), violation.text)
            for who, violation in outcome.violations[:_VIOLATIONS_SHOWN]
        ],
        more_violations=max(0, len(outcome.violations) - _VIOLATIONS_SHOWN),
    )


def _verdict(outcome: Outcome) -> Sequence[tuple[str, int]]:
    counts = outcome.counts
    return [
        (str(wrong).replace("_", " "), counts[wrong])
        for wrong in Wrong
        if counts[wrong] or wrong not in NAMED_WHERE_THERE
    ]


def _seconds(values: Mapping[str, float], name: str) -> str:
    return f"{values[name]:.1f}" if name in values else "–"


def _kinds(outcome: Outcome) -> Table:
    rows: list[list[str]] = []
    for name, tally in outcome.tallies.items():
        waits = percentiles(outcome.unavailable_s(name))
        back = percentiles(outcome.back_in_sync_s(name))
        rows.append(
            [
                name,
                outcome.meanings.get(name, ""),
                str(tally.fired),
                f"{tally.skipped} ({tally.why})" if tally.skipped else "0",
                *(_seconds(waits, each) for each in ("p50", "p99", "max")),
                *(_seconds(back, each) for each in ("p50", "max")),
            ]
        )
    head = ["fault", "what it is", "fired", "turns that went by"]
    head += ["unavailable p50 s", "p99", "max", "back in sync p50 s", "max"]
    return Table("", head, rows, 2)


def _clients(outcome: Outcome) -> Table:
    rows: list[list[str]] = []
    for client in outcome.clients:
        waits = percentiles(client.unavailable_s)
        rows.append(
            [
                client.name,
                f"{client.records:,}",
                f"{client.failed:,}",
                str(client.starts),
                *(_seconds(waits, each) for each in ("p50", "p99", "max")),
                f"{sum(end - begin for begin, end in client.pauses):.0f}",
            ]
        )
    head = ["producer", "acknowledged", "failed", "starts", "unavailable p50 s", "p99", "max"]
    return Table("", [*head, "unavailable in all, s"], rows)


def _copies(outcome: Outcome) -> Table:
    rows = [
        [each.name, f"{each.records:,}", f"{each.commits:,}", f"{each.aborts:,}", str(each.starts)]
        for each in outcome.copies
    ]
    return Table("", ["copier", "records", "commits", "aborts", "starts"], rows)


def _histories(outcome: Outcome) -> Table:
    rows = [[name, str(count)] for name, count in sorted(outcome.histories.anomalies.items())]
    return Table("", ["anomaly that Kafka allows", "histories that have it"], rows)


def _rates(outcome: Outcome) -> Table:
    step, by_client = bucket_s(outcome.seconds), rates(outcome)
    columns = list(by_client.values())
    rows = [
        [str(at * step), *(f"{value:.1f}" for value in values)]
        for at, values in enumerate(zip(*columns, strict=True))
    ]
    return Table(f"Records a second, in steps of {step} s", ["from s", *by_client], rows)


def _faults(outcome: Outcome) -> Table:
    rows = [
        [
            f"{each.began_s:.1f}",
            each.name,
            ", ".join(map(str, each.nodes)),
            f"{each.returned_s - each.began_s:.1f}",
            "–" if each.in_sync_s is None else f"{each.in_sync_s - each.returned_s:.1f}",
            *(
                f"{client.unavailable_s[at]:.1f}" if at < len(client.unavailable_s) else "–"
                for client in outcome.clients
            ),
        ]
        for at, each in enumerate(outcome.faults)
    ]
    head = ["at s", "fault", "nodes", "lasted s", "back in sync after s"]
    return Table("", [*head, *(f"{c.name} unavailable s" for c in outcome.clients)], rows, 3)


def _in_sync(outcome: Outcome) -> Table:
    rows = [[f"{at:.1f}", ", ".join(map(str, nodes)) or "none"] for at, nodes in outcome.in_sync]
    return Table("", ["since s", "nodes in every ISR of theirs"], rows, 2)
