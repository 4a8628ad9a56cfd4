"""Results folders made by hand, whose medians and ranges everybody can check in the head."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tierlog.bench.figures import Failure, Figure, ResultsWriter, RunKey
from tierlog.bench.harness.loads.latencies import LatencyRecorder

MACHINE = {
    "machine": {"cpu": "Example CPU <i>one</i>", "cores": 2, "memory_gib": 24.0},
    "versions": {"tierlog": "0.1.0", "kafka": "4.3.1"},
    "commit": "abc123",
    "plans": {"load": {"warm_up": 0, "repeats": 3}},
    "refused": [
        {"scenario": "load", "case": case, "target": "tansu", "tiered": True, "reason": "No tier."}
        for case in ("small", "large")
    ],
}


class Folder:
    """A folder that is being filled."""

    def __init__(self, path: Path, machine: Mapping[str, object] = MACHINE) -> None:
        self.path = path
        self._writer = ResultsWriter(path)
        self._writer.write_machine(machine)

    def runs(self, scenario: str, case: str, target: str, **metrics: Sequence[float]) -> None:
        """Untiered runs; of each metric one value a run."""
        self._runs(RunKey(scenario, case, target, False, 0), metrics)

    def tiered_runs(
        self, scenario: str, case: str, target: str, **metrics: Sequence[float]
    ) -> None:
        """The same with a tier."""
        self._runs(RunKey(scenario, case, target, True, 0), metrics)

    def _runs(self, key: RunKey, metrics: Mapping[str, Sequence[float]]) -> None:
        for metric, values in metrics.items():
            for run, value in enumerate(values, 1):
                figure = Figure(*key[:4], metric=metric, value=value, run=run)
                self._writer.write_run(key._replace(run=run), [figure], {})

    def latencies(self, key: RunKey, name: str, by_second: Sequence[float]) -> None:
        """A histogram in which every second has one latency, a hundred times."""
        recorder = LatencyRecorder()
        for second, ms in enumerate(by_second):
            for part in range(100):
                recorder.record(ms, second + part / 100)
        figures = [
            Figure(*key[:4], f"{name}_{metric}", value, key.run)
            for metric, value in recorder.figures().items()
        ]
        self._writer.write_run(key, figures, {name: recorder})

    def failure(self, key: RunKey, reason: str) -> None:
        self._writer.write_failure(Failure(*key, reason=reason))

    def tear(self, name: str) -> None:
        """As a machine leaves a file that was switched off."""
        text = (self.path / name).read_text("utf-8")
        (self.path / name).write_text(text + json.dumps({"scenario": "load"})[:-4], "utf-8")
