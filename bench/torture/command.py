"""`tierlog-bench torture`: from its options to its page."""

import json
import shutil
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from ..harness.loads.acknowledged.producers import missing_of
from ..harness.processes.cluster import kind_of
from ..harness.processes.kafka_peer import KAFKA_VERSION, KafkaUnavailableError, kafka_jars
from ..harness.targets.target import TargetUnavailableError
from ..machine import commit, file_system, machine_facts, versions
from . import profiles
from .figures import figures_of, sentence_of
from .load import copiers_of
from .outcome import Outcome, Plot
from .page import page_of
from .run import Order, report, run

_ACTS = 1_000
"""Of each history."""

_PACKAGES: Mapping[str, str] = {
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "mvn": "maven",
    "go": "golang-go",
}
"""The Debian package of each program that a client needs."""

_MEMORY = frozenset({"tmpfs", "ramfs"})


def torture(options: Namespace) -> int:
    """Carry the command out; returns its exit code. Raises TargetUnavailableError."""
    kind = kind_of(options.target)
    if options.list:
        for name, fault in profiles.faults_of([profiles.ALL]).items():
            print(f"{profiles.profile_of(name):8} {name:20} {fault.says}")
            if (why := fault.missing()) is not None:
                print(f"{'':8} {'':20} left out here: {why}")
        return 0
    if kind == "kafka":
        try:
            kafka_jars()
        except KafkaUnavailableError as error:
            raise TargetUnavailableError(str(error)) from error
    order, outcome = _plan(options)
    for name, why in outcome.missing.items():
        report(f"left out: {name}. {why}")
    report(
        f"{options.target}, {options.brokers} brokers, {options.minutes:g} min, seed {order.seed}: "
        f"{len(order.faults)} kinds of faults; producers: {', '.join(order.producers)}"
    )
    return _carry_out(order, outcome, options)


def _plan(options: Namespace) -> tuple[Order, Outcome]:
    kind = kind_of(options.target)
    chosen = profiles.choose(options.profiles, kind)
    producers, missing = list[str](), dict[str, str]()
    for client in options.clients:
        packages = sorted({_PACKAGES[each] for each in missing_of(client)})
        if packages:
            missing[client] = f"This client needs: apt-get install {' '.join(packages)}"
        else:
            producers.append(client)
    order = Order(
        kind,
        options.brokers,
        options.minutes * 60,
        int(time.time()) if options.seed is None else options.seed,
        chosen.faults,
        producers,
        copiers_of(producers),
        _ACTS,
        profiles.store_opener(options.profiles, kind),
    )
    has_tier = order.open_store is not None
    return order, Outcome(
        Plot(options.target, options.brokers, options.profiles, order.seed, has_tier),
        meanings={name: fault.says for name, fault in profiles.faults_of(options.profiles).items()},
        missing=missing | dict(chosen.missing),
    )


def _carry_out(order: Order, outcome: Outcome, options: Namespace) -> int:
    now = datetime.now(UTC)
    out: Path = options.out or Path("bench-results") / f"torture-{now:%Y-%m-%dT%H-%M-%S}"
    out.mkdir(parents=True, exist_ok=True)
    if options.scratch is not None:
        options.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tierlog-torture-", dir=options.scratch) as folder:
        directory = Path(folder)
        if file_system(directory) in _MEMORY:
            report(f"{folder} is memory, not a disk: use --scratch DIR for a disk")
        outcome.facts |= {
            **machine_facts(directory),
            **versions(),
            "began": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        }
        outcome.facts["commit"] = commit()
        if order.kind == "kafka":
            outcome.facts["kafka"] = KAFKA_VERSION
        try:
            run(order, directory, outcome)
        finally:
            _keep(directory, out, outcome)
    return conclude(outcome, out)


def _keep(directory: Path, out: Path, outcome: Outcome) -> None:
    """Keep what nodes and clients have logged, and all answers if anything is wrong with them."""
    for log in directory.glob("cluster/node-*/server.log"):
        shutil.copyfile(log, out / f"{log.parent.name}.log")
    answers = () if outcome.is_clean else ("*.acknowledged", "*.events")
    for pattern in ("*.errors", "copier-*.log", *answers):
        for file in directory.glob(pattern):
            if file.stat().st_size:
                shutil.copyfile(file, out / file.name)


def conclude(outcome: Outcome, out: Path) -> int:
    """Write the page and the figures, and print both lines; returns the exit code."""
    figures = json.dumps(figures_of(outcome), ensure_ascii=False)
    (out / "torture.json").write_text(figures + "\n")
    with (out / "faults.jsonl").open("w") as lines:
        lines.writelines(json.dumps(asdict(fault)) + "\n" for fault in outcome.faults)
    if outcome.violations:
        says = [
            f"{who}: {violation.wrong}: {violation.text}\n" for who, violation in outcome.violations
        ]
        (out / "violations.txt").write_text("".join(says))
    page = out / "torture.html"
    page.write_text(page_of(outcome))
    print(sentence_of(outcome))
    print(figures)
    print(f"page: {page}", flush=True)
    return 0 if outcome.is_clean else 1
