"""One client's load through Kafka's own performance tools, which use the Java clients.

Run as `python -m tierlog.bench.harness.loads.java_perf produce|consume …`; prints one JSON object.
A JVM is slow while it compiles, and a tool that runs for seconds would mostly measure that. So the
first third of the records is a warm-up: `seconds` is the time that all records take at the rate of
the rest, `warm_up_records` the number in the warm-up.

The tools' output is checked: every record was acknowledged and is in the broker, and the consumer
did not give up. Java's consumer itself checks each batch's CRC.
"""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..peers.tls_listener import CIPHER, VERSION
from ..processes.kafka_peer import TOOLS, java_command
from ..requests.admin import end_offsets
from .load import LoadError, Order, client_main, values

_JVM = ("-server", "-XX:+UseG1GC", "-Xms512m", "-Xmx512m", "-Djava.awt.headless=true")
"""The flags of Kafka's own scripts."""

_TIMEOUT_S = 600
_INTERVAL_MS = 20
_STEADY = " steady state records sent, "
_GAVE_UP = "Exiting before consuming"
_REQUESTS = re.compile(r"(?:producer|consumer)-metrics:request-total:\S*\s*: (\S+)")


def _run(tool: str, *arguments: str) -> list[str]:
    """The lines of a tool's output."""
    command = java_command(TOOLS[tool], *arguments, flags=_JVM)
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if answer.returncode:
        raise LoadError(f"{tool} failed:\n{answer.stdout[-2000:]}{answer.stderr[-2000:]}")
    return answer.stdout.splitlines()


def _connection(order: Order) -> list[str]:
    """The settings of a client that speaks TLS; none for one that does not."""
    if order.authority is None:
        return []
    return [
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={order.authority}",
        f"ssl.enabled.protocols={VERSION}",
        f"ssl.cipher.suites={CIPHER}",
    ]


def _counting(order: Order) -> list[str]:
    return ["--print-metrics"] if order.count_requests else []


def _requests(order: Order, lines: Sequence[str]) -> dict[str, float]:
    """The client's requests, from the metrics that the tool prints at its end."""
    if not order.count_requests:
        return {}
    totals = [float(match[1]) for match in map(_REQUESTS.match, lines) if match]
    if not totals:
        raise LoadError("the tool did not print the number of its requests")
    return {"requests": sum(totals)}


def produce(order: Order) -> dict[str, float]:
    """Produce a whole load."""
    load = order.load
    warm_up = load.records // 3
    with tempfile.TemporaryDirectory(prefix="tierlog-java-") as scratch:
        payload = Path(scratch) / "values"
        payload.write_bytes(b"\n".join(values(load.record_bytes, varied=load.varied)))
        lines = _run(
            "kafka-producer-perf-test",
            *("--bootstrap-server", order.data_bootstrap, "--topic", order.topic),
            *("--num-records", str(load.records), "--warmup-records", str(warm_up)),
            *("--throughput", "-1", "--payload-file", str(payload)),
            *("--command-property", f"acks={load.acks}", f"linger.ms={load.linger_ms}"),
            *(f"batch.size={load.batch_bytes}", f"compression.type={load.codec}"),
            "buffer.memory=67108864",
            *_connection(order),
            *_counting(order),
        )
    if not any(line.startswith(f"{load.records} records sent, ") for line in lines):
        raise LoadError("not every record was acknowledged:\n" + "\n".join(lines[-5:]))
    if load.acks != "0":
        written = sum(end_offsets(order.bootstrap, order.topic, load.partitions))
        if written != load.records:
            raise LoadError(f"the broker has {written} of {load.records} acknowledged records")
    seconds = load.records / steady_rate(lines)
    return {"seconds": seconds, "warm_up_records": warm_up, **_requests(order, lines)}


def steady_rate(lines: Sequence[str]) -> float:
    """Records per second after the warm-up, from the producing tool's output."""
    for line in lines:
        _, separator, rest = line.partition(_STEADY)
        if separator:
            return float(rest.partition(" ")[0])
    raise LoadError("the tool did not report its steady state")


class Progress(NamedTuple):
    """The number of records read up to a time, which is in milliseconds of the day."""

    at_ms: int
    records: int


def progress(lines: Sequence[str]) -> list[Progress]:
    """The progress reports in the consuming tool's output."""
    reports: list[Progress] = []
    for line in lines:
        columns = [column.strip() for column in line.split(",")]
        if len(columns) < 5 or not columns[4].isdigit():
            continue
        hour, minute, second, ms = (int(part) for part in columns[0].split(" ")[1].split(":"))
        reports.append(Progress(((hour * 60 + minute) * 60 + second) * 1000 + ms, int(columns[4])))
    return reports


def consume(order: Order) -> dict[str, float]:
    """Consume a whole load."""
    load = order.load
    lines = _run(
        "kafka-consumer-perf-test",
        *("--bootstrap-server", order.data_bootstrap, "--topic", order.topic),
        *("--num-records", str(load.records), "--timeout", "60000"),
        *("--reporting-interval", str(_INTERVAL_MS), "--show-detailed-stats"),
        *(part for each in _connection(order) for part in ("--command-property", each)),
        *_counting(order),
    )
    if any(_GAVE_UP in line for line in lines):
        raise LoadError(f"not all of {load.records} records were read:\n" + "\n".join(lines[-3:]))
    reports = progress(lines)
    warm = [report for report in reports if report.records >= load.records // 3]
    if len(warm) < 2:
        raise LoadError(f"{load.records} records are too few for this tool to measure a rate")
    first, last = warm[0], warm[-1]
    # Midnight may pass in between.
    took_ms = (last.at_ms - first.at_ms) % 86_400_000
    rate = (last.records - first.records) / (took_ms / 1000)
    seconds = load.records / rate
    return {"seconds": seconds, "warm_up_records": first.records, **_requests(order, lines)}


if __name__ == "__main__":
    client_main(__doc__, produce, consume)
