"""The figures of a torture run: a line of JSON, and a line for people. Pure."""

from collections.abc import Sequence
from dataclasses import asdict

from ..harness.checker.acknowledged import NAMED_WHERE_THERE, Wrong
from ..scenarios.percentiles import percentile
from .outcome import Outcome

_ERRORS_SHOWN = 5


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """The median, the 99th percentile and the maximum; nothing of nothing."""
    if not seconds:
        return {}
    return {
        "p50": round(percentile(seconds, 50), 3),
        "p99": round(percentile(seconds, 99), 3),
        "max": round(max(seconds), 3),
    }


def figures_of(outcome: Outcome) -> dict[str, object]:
    """The JSON line: everything but what only a plot needs."""
    plot, counts = outcome.plot, outcome.counts
    fired = [tally.fired for tally in outcome.tallies.values()]
    return {
        "target": plot.target,
        "brokers": plot.brokers,
        "profiles": list(plot.profiles),
        "seed": plot.seed,
        "tier": plot.has_tier,
        "seconds": round(outcome.seconds, 1),
        "clean": outcome.is_clean,
        **{str(wrong): count for wrong, count in counts.items()},
        "records": outcome.records,
        "failed_records": sum(client.failed for client in outcome.clients),
        "copied_records": sum(copy.records for copy in outcome.copies),
        "histories": outcome.histories.judged,
        "history_acts": outcome.histories.acts,
        "histories_inconclusive": outcome.histories.inconclusive,
        "allowed_anomalies": dict(outcome.histories.anomalies),
        "faults": sum(fired),
        "kinds": sum(1 for each in fired if each),
        "kinds_5_times": sum(1 for each in fired if each >= 5),
        "unavailable_s": percentiles(outcome.unavailable_s()),
        "back_in_sync_s": percentiles(outcome.back_in_sync_s()),
        "ended_by_themselves": len(outcome.ended_by_themselves),
        "faults_that_failed": len(outcome.fault_errors),
        "fault_errors": outcome.fault_errors[:_ERRORS_SHOWN],
        "missing": dict(outcome.missing),
        "failures": list(outcome.failures),
        "by_client": {
            client.name: {
                "records": client.records,
                "failed": client.failed,
                "failed_with": dict(client.failed_with.most_common(_ERRORS_SHOWN)),
                "starts": client.starts,
                "unavailable_s": percentiles(client.unavailable_s),
            }
            for client in outcome.clients
        },
        "by_copier": {copy.name: asdict(copy) for copy in outcome.copies},
        "by_fault": {
            name: {
                "fired": tally.fired,
                "skipped": tally.skipped,
                "why": tally.why,
                "unavailable_s": percentiles(outcome.unavailable_s(name)),
                "back_in_sync_s": percentiles(outcome.back_in_sync_s(name)),
            }
            for name, tally in outcome.tallies.items()
        },
        "facts": dict(outcome.facts),
    }


def sentence_of(outcome: Outcome) -> str:
    """The line for people."""
    plot = outcome.plot
    fired = [tally.fired for tally in outcome.tallies.values() if tally.fired]
    copied = sum(copy.records for copy in outcome.copies)
    says = (
        f"{plot.target}, {plot.brokers} brokers, {outcome.seconds / 60:.3g} min: "
        f"{_wrong_words(outcome)} of {outcome.records:,} records acknowledged, {copied:,} copied "
        f"and {outcome.histories.judged:,} histories under {sum(fired):,} faults of {len(fired)} "
        f"kinds, each at least {min(fired, default=0)} times"
    )
    idle = len(outcome.tallies) - len(fired)
    if idle:
        says += f"; {idle} had no turn"
    waits = percentiles(outcome.unavailable_s())
    if waits:
        says += (
            f"; a partition unavailable for p50 {waits['p50']:.1f} s, p99 {waits['p99']:.1f} s, "
            f"max {waits['max']:.1f} s"
        )
    if outcome.fault_errors:
        failed = len(outcome.fault_errors)
        says += f"; {failed} {'fault' if failed == 1 else 'faults'} failed"
    if outcome.failures:
        says += f"; the run failed: {' '.join(outcome.failures[0].split())}"
    return says


def _wrong_words(outcome: Outcome) -> str:
    counts = outcome.counts
    named = [each for each in Wrong if counts[each] or each not in NAMED_WHERE_THERE]
    return ", ".join(f"{counts[each]:,} {str(each).replace('_', ' ')}" for each in named)
