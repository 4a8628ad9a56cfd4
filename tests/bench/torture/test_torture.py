"""A torture run of seconds on three brokers: it judges, and it does not overlook what is lost."""

import json
import re
import threading
from pathlib import Path

import pytest

from tierlog.bench.__main__ import main
from tierlog.bench.harness.checker.acknowledged import Wrong
from tierlog.bench.harness.faults.fault import Fault, Grounds, Nodes
from tierlog.bench.harness.loads.acknowledged.steady_producers import LIBRDKAFKA
from tierlog.bench.torture.command import conclude
from tierlog.bench.torture.outcome import Outcome, Plot
from tierlog.bench.torture.run import Order, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_a_run_of_seconds_judges_and_writes_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    options = ["--minutes", "0.34", "--profile", "process,network", "--seed", "1"]
    options += ["--clients", "librdkafka,aiokafka", "--out", str(out), "--scratch", str(tmp_path)]
    assert main(["torture", *options]) == 0
    printed = capsys.readouterr()
    assert "under way: " in printed.err
    sentence, line, page = printed.out.splitlines()
    assert sentence.startswith("tierlog, 3 brokers, 0.3")
    figures = json.loads(line)
    assert figures["clean"]
    assert figures["faults"] > 0
    assert figures["by_client"]["aiokafka"]["records"] > 0
    assert figures["by_copier"]["librdkafka"]["commits"] > 0
    assert figures["histories"] > 0
    assert page == f"page: {out / 'torture.html'}"
    assert (out / "torture.html").read_text().rstrip().endswith("</html>")
    assert len((out / "faults.jsonl").read_text().splitlines()) == figures["faults"]


def _loss_on_every_disk() -> Fault:
    """All nodes end, and half of one partition is cut off on each of them. It is done once."""
    is_done = threading.Event()

    def choose(grounds: Grounds) -> Nodes:
        free = tuple(grounds.free())
        return free if len(free) == 3 and not is_done.is_set() else ()

    def act(grounds: Grounds, nodes: Nodes, lasts_s: float) -> None:
        for node in nodes:
            grounds.cluster.nodes[node].kill()
        for node in nodes:
            directory = grounds.cluster.nodes[node].log_directory / f"torture-{LIBRDKAFKA}-0"
            segment = max(directory.glob("*.log"))
            with segment.open("r+b") as file:
                file.truncate(segment.stat().st_size // 2)
            grounds.cluster.nodes[node].spawn()
        is_done.set()

    return Fault("planted_loss", "", act, choose)


def test_a_loss_that_is_planted_on_all_disks_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = Order("tierlog", 3, 12.0, 1, [_loss_on_every_disk()], [LIBRDKAFKA], [], 0)
    outcome = Outcome(Plot("tierlog", 3, ("planted",), 1, has_tier=False))
    run(order, tmp_path, outcome)
    assert outcome.counts[Wrong.LOST] > 0
    assert conclude(outcome, tmp_path) == 1
    # Not `"0 lost" not in`: ten lost ones are "10 lost".
    assert re.search(r"(?<![\d,])[1-9][\d,]* lost", capsys.readouterr().out)
    assert "is lost" in (tmp_path / "violations.txt").read_text()
