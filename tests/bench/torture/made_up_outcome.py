"""The outcome of a run of a minute that never was: two clients, four faults, one history."""

from tierlog.bench.harness.checker.acknowledged import Acknowledged, Answer, Violation, Wrong
from tierlog.bench.harness.cluster_runs.in_sync import InSync
from tierlog.bench.harness.faults.fault_runner import Fired
from tierlog.bench.torture.outcome import ClientSeen, CopySeen, HistoriesSeen, Outcome, Plot
from tierlog.bench.torture.plan import Tally

BEGAN = 1_000.0
SECONDS = 60.0
FIRED = [
    Fired("kill", (1,), BEGAN + 5, BEGAN + 7),
    Fired("cut", (1, 2), BEGAN + 20, BEGAN + 26),
    Fired("kill", (2,), BEGAN + 40, BEGAN + 41),
    Fired("disk_full", (3,), BEGAN + 50, BEGAN + 52),
]
IN_SYNC = [
    InSync(BEGAN + at, frozenset(nodes))
    for at, nodes in [(0, (1, 2, 3)), (6, (2, 3)), (9, (1, 2, 3)), (41.5, (1, 3)), (43, (1, 2, 3))]
]
MOMENTS = [fired.began for fired in FIRED]


def answers(*times: float) -> dict[int, Answer]:
    """Answers at these seconds of the run."""
    return {number: Answer(number, BEGAN + at) for number, at in enumerate(times)}


def client(name: str, *times: float) -> ClientSeen:
    """A client whose two partitions were answered at these times, and one record failed."""
    seen = ClientSeen(name)
    acknowledged = Acknowledged({0: answers(*times), 1: answers(*times)}, ["f 0 99 it <timed> out"])
    seen.add(acknowledged, BEGAN, MOMENTS)
    return seen


def made_up(*wrong: Violation, failures: tuple[str, ...] = ()) -> Outcome:
    """The outcome, in which this was wrong."""
    outcome = Outcome(
        Plot("tierlog", 3, ("process", "disk"), 7, has_tier=False),
        seconds=SECONDS,
        copies=[CopySeen("librdkafka", 120, 4, 1, 2)],
        tallies={
            "kill": Tally(2),
            "cut": Tally(1),
            "disk_full": Tally(1, 1, "not all replicas were in sync"),
            "pause": Tally(0, 2, "no node was free for it"),
        },
        meanings={"kill": "SIGKILL of any node.", "cut": "Two nodes do not reach each other."},
        missing={"franz-go": "This client needs: apt-get install golang-go"},
        histories=HistoriesSeen(1, 500),
    )
    outcome.say_faults(FIRED, IN_SYNC, BEGAN)
    every_second = [float(at) for at in range(61)]
    outcome.clients = [
        client("librdkafka", *every_second),
        client("a <script>", *(at for at in every_second if not 5 < at < 12)),
    ]
    outcome.violations = [("librdkafka", each) for each in wrong]
    outcome.failures = list(failures)
    return outcome


LOST = Violation(Wrong.LOST, "Record 5 of partition 0 was acknowledged at offset 5 and is lost.")
