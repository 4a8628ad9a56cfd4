"""Three brokers are restarted one after the other, again and again, while clients produce.

Each gets SIGTERM, moves its leaders away (controlled shutdown) and stops; it is started, comes back
in sync, and gets its leaders back; then the next. librdkafka and Java produce with acks=all,
min.insync.replicas=2 and idempotence; at the end a consumer reads everything once, and a run that
has lost, doubled or reordered an acknowledged record has no figures.

- `rolling restart`: with the defaults of both brokers;
- `…, clean restart`: with `tierlog.broker.clean.restart=true`, so that a broker need not wait for
  the end of its last session; tierlog only;
- `rolling upgrade and back`: the same, from the last release's wheel to the newest, and back
  (`bench/releases.py` says which); tierlog only, for Kafka is fetched in one version.

`CLIENT_unavailable` has one sample for each restart and partition that the broker led: the longest
time without an acknowledgement, from SIGTERM until a second after its leaders are back.
`CLIENT_worst` is the longest of each restart.
"""

from collections.abc import Mapping, Sequence

from ...harness.processes.cluster import kind_of
from ...harness.targets.target import RunningTarget, Target
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ..percentiles import record_clients, record_percentiles
from .failover import needs_a_cluster

RESTART = "rolling restart"
CLEAN = "rolling restart, clean restart"
UPGRADE = "rolling upgrade and back"
_OURS = {
    CLEAN: "tierlog.broker.clean.restart is tierlog's own",
    UPGRADE: "only one version of it is fetched",
}
_ROUNDS = {Scale.SMOKE: 1, Scale.SMALL: 2, Scale.FULL: 7}
_UPGRADE_ROUNDS = {Scale.SMOKE: 2, Scale.SMALL: 2, Scale.FULL: 6}
_AROUND_S, _RESTART_S = 40.0, 20.0
_CLEAN_RESTART: Mapping[str, str] = {"tierlog.broker.clean.restart": "true"}


class RollingScenario:
    """One run: one cluster, until everything is read back."""

    name = "rolling"
    summary = "three brokers: rolling restart and upgrade under load; nothing is lost"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case(RESTART), Case(CLEAN), Case(UPGRADE)]

    def plan(self, scale: Scale) -> Plan:
        restarts = 3 * _ROUNDS[scale]
        return Plan(0, 1, "run", expected_seconds=_AROUND_S + restarts * _RESTART_S)

    def refuses(self, case: Case, target: Target) -> str | None:
        reason = needs_a_cluster(target)
        if reason is None and target.name == "kafka":
            reason = _OURS.get(case.name)
        return reason

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        # They need confluent-kafka, and a list of the scenarios does not.
        from ...harness.cluster_runs.rolling import run_rolling
        from ...releases import old_and_new

        directory = target.directory
        rounds, programs = _ROUNDS[scale], []
        if case.name == UPGRADE:
            rounds = _UPGRADE_ROUNDS[scale]
            programs = [(str(each),) for each in old_and_new(directory / "releases")]
        properties = None if case.name == RESTART else _CLEAN_RESTART
        done = run_rolling(
            directory / "cluster", kind_of(target.name), rounds, properties, programs
        )
        record_clients(recorder, done.answers.acknowledged, done.unavailable_s)
        for client in done.answers.acknowledged:
            record_percentiles(recorder, f"{client}_worst", done.worst_s(client))
        record_percentiles(recorder, "stopping", [restart.stopping_s for restart in done.restarts])
        record_percentiles(
            recorder, "returning", [restart.returning_s for restart in done.restarts]
        )


SCENARIO: Scenario = RollingScenario()
