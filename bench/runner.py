"""Runs scenarios: starts brokers, alternates between them, and decides which runs count.

The brokers of a group run at the same time, and each round measures all of them before the next
begins, tiered and untiered next to each other, so that a noisy minute affects all alike. Warm-up
rounds come first and are not counted.

A run counts if the scenario found nothing wrong and no broker process was replaced. A run that does
not count is reported at once, has a line in failures.jsonl with the reason, the end of its broker's
log in logs/, and no figures. A broker that died is replaced by a new one, which is warmed up again;
a case that failed twice at one target is not tried there again.

However the runner ends, even by an interrupt, every broker that it started is ended, and everything
measured so far is on disk.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .figures import Failure, Figure, ResultsWriter, RunKey
from .harness.measurement_error import message_and_notes
from .harness.targets.several_nodes import SeveralNodes
from .harness.targets.target import RunningTarget, Target
from .memory import have_memory_at_hand
from .page_cache import write_back
from .progress import Progress
from .recorder import Recorder
from .scenario import Case, Scale
from .schedule import Part, side_by_side

_FAILURES_BEFORE_GIVING_UP = 2
_AT_HAND_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of all runs.

    `tier` is a URL; if it is None, each tier is a folder next to the broker's data.
    """

    scale: Scale
    scratch: Path
    tier: str | None = None


class Runner:
    """Measures parts of a schedule into one results folder."""

    def __init__(self, writer: ResultsWriter, progress: Progress, settings: Settings) -> None:
        self._writer = writer
        self._progress = progress
        self._settings = settings
        self._prepared = 0
        self.counted = 0
        """The number of counted runs with figures."""
        self.took_seconds: dict[str, float] = {}
        """The duration of each scenario, including the brokers' starts and ends."""
        self.failures: list[Failure] = []

    def run(self, parts: Sequence[Part]) -> None:
        """Run all parts, in order."""
        expected = sum(part.expected_seconds for part in parts)
        self._progress.begin(sum(part.runs for part in parts), expected)
        try:
            for part in parts:
                began = time.monotonic()
                for cases in part.groups():
                    _Group(self, part, cases).run()
                self.took_seconds[part.scenario.name] = time.monotonic() - began
        finally:
            self._progress.end()

    def prepare(self, part: Part, target: Target, tiered: bool) -> RunningTarget:
        """A broker in a new folder, not yet started."""
        self._prepared += 1
        folder = f"{self._prepared:03}-{target.name.replace(':', '-')}"
        directory = self._settings.scratch / folder
        if part.plan.nodes > 1:
            return SeveralNodes.prepare(target, directory, part.plan.properties, part.plan.nodes)
        tier = None
        if tiered:
            given = self._settings.tier
            tier = (directory / "remote").as_uri()
            if given:
                # Two sessions may use the same URL.
                tier = f"{given.rstrip('/')}/{self._settings.scratch.name}/{folder}"
        running = target.prepare(directory, part.plan.properties, tier)
        if part.plan.tls and running.node is not None:
            # The extra `bench` has what this needs, and few scenarios do.
            from .harness.peers.tls_identity import make_identity

            running.node.listen_with_tls(make_identity(self._settings.scratch / "identity"))
        return running

    def measure(self, part: Part, case: Case, running: RunningTarget, run: int) -> bool:
        """Do one run; write its figures or its failure. Returns whether it succeeded."""
        key = RunKey(part.scenario.name, case.name, running.name, case.tiered, run)
        recorder = Recorder(key)
        self._settle()
        before = running.pids() if part.plan.fresh_broker != "run" else None
        figures: list[Figure] = []
        said = ""
        try:
            part.scenario.measure(case, running, recorder, self._settings.scale)
            reason = _what_became_of(running, before)
            if reason is None:
                figures = recorder.figures()
        except Exception as error:
            reason = " ".join(filter(None, (_what_became_of(running, before), _message(error))))
            said = f"{message_and_notes(error)}\n\n"
        if reason is not None:
            self.fail(key, reason, said + _last_words(running))
            return False
        if run > 0:
            self._writer.write_run(key, figures, recorder.histograms())
            self.counted += 1
        return True

    def _settle(self) -> None:
        """Keep the previous run from affecting the cost of the next one."""
        write_back()
        if self._settings.scale is not Scale.SMOKE:
            have_memory_at_hand(_AT_HAND_BYTES, self._settings.scratch)

    def fail(self, key: RunKey, reason: str, log: str = "") -> None:
        """Record and report a failed run."""
        failure = Failure(*key, reason=reason)
        self._writer.write_failure(failure, log)
        self.failures.append(failure)
        self._progress.report(f"FAILED {_name(key)}: {reason}")

    def end(self, target: Target, running: RunningTarget) -> None:
        """Kill a broker, which will not be started again, and delete its data."""
        if "start" in target.capabilities:
            running.kill()
        try:
            running.discard()
        except Exception as error:
            self._progress.report(
                f"the data of {target.name} could not be deleted: {_message(error)}"
            )

    def run_begins(self, key: RunKey) -> None:
        self._progress.run_begins(_name(key))

    def run_ends(self, key: RunKey, part: Part) -> None:
        self._progress.run_ends(_name(key), part.seconds_a_run)


class _Group:
    """The cases that share brokers, measured at every target in turn."""

    def __init__(self, runner: Runner, part: Part, cases: Sequence[Case]) -> None:
        self._runner = runner
        self._part = part
        self._cases = cases
        self._brokers: dict[str, RunningTarget] = {}
        self._suspect: set[str] = set()
        """Targets with a failed run at the current broker."""
        self._failed: dict[tuple[Case, str], int] = {}
        self._targets = list({t.name: t for case in cases for t in part.accepted[case]}.values())

    def run(self) -> None:
        plan = self._part.plan
        with ExitStack() as stack:
            if plan.fresh_broker != "run":
                for target in self._targets:
                    self._start(target, stack)
            for number in range(1 - plan.warm_up, plan.repeats + 1):
                for forms in side_by_side(self._cases):
                    for target in self._targets:
                        for case in forms:
                            if target in self._part.accepted[case]:
                                self._turn(case, target, number, stack)

    def _turn(self, case: Case, target: Target, number: int, stack: ExitStack) -> None:
        """Do one run of a case at a target, unless it has failed too often there."""
        key = self._key(case, target, number)
        self._runner.run_begins(key)
        if self._failed.get((case, target.name), 0) < _FAILURES_BEFORE_GIVING_UP:
            if self._part.plan.fresh_broker == "run":
                counts = self._run_alone(case, target, number)
            else:
                counts = self._run_at_kept(case, target, number, stack)
            if not counts:
                self._failed[case, target.name] = self._failed.get((case, target.name), 0) + 1
        self._runner.run_ends(key, self._part)

    def _run_alone(self, case: Case, target: Target, number: int) -> bool:
        """Run at a new broker, which the scenario starts."""
        running = self._runner.prepare(self._part, target, case.tiered)
        running.directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.callback(self._runner.end, target, running)
            return self._runner.measure(self._part, case, running, number)

    def _run_at_kept(self, case: Case, target: Target, number: int, stack: ExitStack) -> bool:
        """Run at the group's broker; after a failed run, at a new one that is warmed up first."""
        if target.name in self._suspect or not self._brokers[target.name].is_alive():
            self._runner.end(target, self._brokers[target.name])
            if not self._start(target, stack):
                return False
            for warm_up in range(1 - self._part.plan.warm_up, min(1, number)):
                if not self._measure(case, target, warm_up):
                    return False
        return self._measure(case, target, number)

    def _measure(self, case: Case, target: Target, number: int) -> bool:
        counts = self._runner.measure(self._part, case, self._brokers[target.name], number)
        if not counts:
            self._suspect.add(target.name)
        return counts

    def _start(self, target: Target, stack: ExitStack) -> bool:
        """Start the group's broker of a target. If it does not start, every case fails."""
        tiered = any(case.tiered for case in self._cases if target in self._part.accepted[case])
        running = self._runner.prepare(self._part, target, tiered)
        self._brokers[target.name] = running
        stack.callback(self._runner.end, target, running)
        try:
            running.start()
        except Exception as error:
            for case in self._cases:
                if target in self._part.accepted[case]:
                    self._failed[case, target.name] = _FAILURES_BEFORE_GIVING_UP
                    reason = f"The broker did not start. {_message(error)}"
                    self._runner.fail(self._key(case, target, 1), reason, _last_words(running))
            return False
        self._suspect.discard(target.name)
        return True

    def _key(self, case: Case, target: Target, number: int) -> RunKey:
        return RunKey(self._part.scenario.name, case.name, target.name, case.tiered, number)


def _what_became_of(running: RunningTarget, before: tuple[int, ...] | None) -> str | None:
    """What is wrong with the broker after a run; `before` is None if the scenario starts it."""
    if before is None:
        died = running.node is not None and running.node.has_died()
        return "The broker died." if died else None
    if not running.is_alive():
        return "The broker died."
    return None if running.pids() == before else "The broker was restarted meanwhile."


def _last_words(running: RunningTarget) -> str:
    try:
        return running.log_tail()
    except FileNotFoundError:
        # The broker has not created its log.
        return ""


def _message(error: Exception) -> str:
    """An error and its notes on one line, with its type unless it is one of our own.

    A longer text, such as a client's traceback, is reduced to its first and last line; logs/ has
    the rest.
    """
    lines = [line.strip() for line in message_and_notes(error).splitlines() if line.strip()]
    text = " … ".join(lines if len(lines) < 2 else (lines[0], lines[-1]))
    ours = type(error).__module__.startswith(__package__ or "tierlog")
    return text if ours and text else f"{type(error).__name__}: {text}"


def _name(key: RunKey) -> str:
    kind = ", tiered" if key.tiered else ""
    number = f"run {key.run}" if key.run > 0 else "warming up"
    return f"{key.scenario}, {key.case}, {key.target}{kind}, {number}"
