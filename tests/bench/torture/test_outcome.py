"""A run comes to figures, two lines and a page that hide nothing."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tierlog.bench.torture.command import conclude
from tierlog.bench.torture.figures import figures_of, sentence_of
from tierlog.bench.torture.outcome import merged
from tierlog.bench.torture.page import page_of

from .made_up_outcome import LOST, made_up


def test_unavailability_is_of_the_fault_that_a_gap_falls_into() -> None:
    outcome = made_up()
    steady, gapped = outcome.clients
    assert steady.unavailable_s == [1.0, 1.0, 1.0, 1.0]
    assert gapped.unavailable_s == [7.0, 1.0, 1.0, 1.0]
    assert (steady.pauses, gapped.pauses) == ([], [(5.0, 12.0)])
    assert outcome.unavailable_s("kill") == [1.0, 1.0, 7.0, 1.0]


def test_the_way_back_into_sync_is_counted_from_the_end_of_the_fault() -> None:
    outcome = made_up()
    assert outcome.back_in_sync_s("kill") == [2.0, 2.0]
    assert outcome.back_in_sync_s("cut") == []


def test_spans_that_touch_are_one() -> None:
    assert merged([(5, 6), (1, 3), (2, 4), (6, 7)]) == [(1, 4), (5, 7)]


def test_the_figures_say_what_has_fired_and_what_has_not() -> None:
    figures = figures_of(made_up())
    assert (figures["clean"], figures["lost"], figures["faults"], figures["kinds"]) == (
        True,
        0,
        4,
        3,
    )
    assert figures["missing"] == {"franz-go": "This client needs: apt-get install golang-go"}
    by_fault = figures["by_fault"]
    assert isinstance(by_fault, dict)
    assert by_fault["pause"]["fired"] == 0
    assert by_fault["pause"]["why"] == "no node was free for it"
    assert json.loads(json.dumps(figures)) == figures


def test_the_line_for_people_is_one_line() -> None:
    assert sentence_of(made_up()).startswith(
        "tierlog, 3 brokers, 1 min: 0 lost, 0 doubled, 0 reordered, 0 aborted read of 232 records"
    )
    failed = sentence_of(made_up(failures=("Not in sync.\nnode 1 said: …",)))
    assert "the run failed: Not in sync. node 1 said: …" in failed
    assert "\n" not in failed


def test_what_is_wrong_is_on_the_page_in_the_figures_and_in_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conclude(made_up(), tmp_path) == 0
    assert "What is wrong" not in (tmp_path / "torture.html").read_text()
    assert conclude(made_up(LOST), tmp_path) == 1
    sentence, figures, page = capsys.readouterr().out.splitlines()[-3:]
    assert "1 lost" in sentence
    assert json.loads(figures)["lost"] == 1
    assert json.loads((tmp_path / "torture.json").read_text()) == json.loads(figures)
    assert page == f"page: {tmp_path / 'torture.html'}"
    assert LOST.text in (tmp_path / "torture.html").read_text()
    assert LOST.text in (tmp_path / "violations.txt").read_text()


def test_a_run_that_was_not_judged_is_not_clean(tmp_path: Path) -> None:
    assert conclude(made_up(failures=("The cluster did not recover.",)), tmp_path) == 1


class _Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_the_page_is_one_file_that_runs_nothing_and_takes_its_ink_from_the_reader() -> None:
    page = page_of(made_up())
    parsed = _Tags(page)
    assert not {"script", "link", "img", "iframe"} & set(parsed.tags)
    assert not any(name in ("src", "href") for name, _ in parsed.attributes)
    assert parsed.tags.count("figure") == parsed.tags.count("figcaption") == 2
    assert "a &lt;script&gt;" in page
    assert "prefers-color-scheme: dark" in page
    assert "fill: #ffffff" not in page


def test_every_plot_has_its_values_in_a_table() -> None:
    page = page_of(made_up())
    for text in ("Records a second, in steps of 1 s", "not all replicas were in sync", "disk_full"):
        assert text in page


def test_the_line_for_people_counts_the_kinds_that_had_no_turn() -> None:
    assert "4 faults of 3 kinds, each at least 1 times; 1 had no turn;" in sentence_of(made_up())
