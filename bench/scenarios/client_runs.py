"""What several scenarios do with one client: fill a topic, run a load, measure latencies."""

from collections.abc import Sequence

from ..harness.loads.client_process import ClientResult, run_client, start_client
from ..harness.loads.load import Load
from ..harness.loads.steady import SteadyLoad
from ..harness.targets.target import RunningTarget
from ..recorder import GIGABYTE, Recorder

_TAIL_PATIENCE_S = 60.0
_KIB = 1024


def size_words(nbytes: int) -> str:
    """A size as cases name it."""
    return f"{nbytes // _KIB} KiB" if nbytes % _KIB == 0 else f"{nbytes} B"


def partition_words(partitions: int) -> str:
    """A number of partitions as cases name it."""
    return "1 partition" if partitions == 1 else f"{partitions} partitions"


def fill_topic(bootstrap: str, topic: str, load: Load, *, timeout_s: float = 600) -> ClientResult:
    """Produce a load through librdkafka. Raises ClientError."""
    order = ("produce", "--bootstrap", bootstrap, "--topic", topic)
    return run_client("librdkafka_load", *order, *load.arguments(), timeout_s=timeout_s)


def record_cpu_before(target: RunningTarget, recorder: Recorder) -> None:
    """Record the CPU that the broker has used before a run, if it can be read."""
    used = target.usage()
    if used is not None:
        recorder.figure("broker_cpu_before_s", used.cpu_seconds)


def run_load(
    client: Sequence[str],
    load: Load,
    target: RunningTarget,
    topic: str,
    recorder: Recorder,
    options: Sequence[str] = (),
) -> None:
    """Run a client (module, direction), and measure what it and the broker use."""
    module, direction = client
    record_cpu_before(target, recorder)
    order = [direction, "--bootstrap", target.bootstrap, "--topic", topic, *options]
    if recorder.counts_work:
        order.append("--count-requests")
    with recorder.usage(target, nbytes=load.total_bytes):
        result = run_client(module, *order, *load.arguments())
    seconds = result.figures["seconds"]
    recorder.figure("mb_per_s", load.total_bytes / seconds / 1e6)
    recorder.figure("records_per_s", load.records / seconds)
    if requests := result.figures.get("requests"):
        recorder.figure("client_requests_per_gb", requests / (load.total_bytes / GIGABYTE))
        recorder.figure("kib_per_client_request", load.total_bytes / _KIB / requests)


def measure_latency(
    load: SteadyLoad, target: RunningTarget, topic: str, recorder: Recorder
) -> None:
    """Measure a steady load to its acknowledgements, and to a consumer at the end of the log."""
    order = ("--bootstrap", target.bootstrap, "--topic", topic, *load.arguments())
    with start_client("tail_consumer", *order) as tail:
        with recorder.usage(target, nbytes=load.records * load.record_bytes):
            acknowledged = run_client("steady_load", *order)
            read = tail.result(_TAIL_PATIENCE_S)
    acknowledged.record_into(recorder.histogram("produce"))
    read.record_into(recorder.histogram("end_to_end"))
    recorder.figure("sender_behind_ms", acknowledged.figures["sender_behind_ms"])
