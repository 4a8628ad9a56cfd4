"""A remote tier: catching up from an S3 store with added latency and a bandwidth limit.

Every run has its own S3 server (`s3_server.py`) behind a proxy that slows down and counts
the traffic (`slow_proxy.py`), and a broker that has never run. A topic is filled, then
copied through the proxy as one backlog, leaves the disk, and is read from the start by one consumer
with cold caches. The measurements are

- the rates of copying and reading back, and the broker's CPU for both;
- the gain of prefetching: the same ranges of the same objects are requested again, one at a time,
  through the same proxy, as a reader without prefetching would;
- the hit rates of the chunk and index caches: in memory (hits), being fetched (joined), or neither,
  from the broker's own metrics;
- what the store would bill: requests by kind and bytes, for each GB copied and each GB read, which
  the report multiplies by the user's price list (`reporting/cost.py`).

The untiered case reads the same records from the broker's own disk. The store and the proxy share
the machine with the broker, so without latency the store is the bottleneck: compare the cases with
each other, not with a store elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ...harness.loads.client_process import run_client
from ...harness.loads.load import Load
from ...harness.measurement_error import MeasurementError
from ...harness.peers.s3_server import BUCKET, S3Server
from ...harness.peers.slow_proxy import Counts, Link, Seen, SlowProxy, counts_of, read_one_by_one
from ...harness.requests.broker_metrics import read_metrics
from ...harness.requests.probe import free_port
from ...harness.targets.target import RunningTarget, Target
from ...recorder import GIGABYTE, Recorder
from ...scenario import Case, Plan, Scale
from .old_data import (
    BATCH_BYTES,
    RECORD_BYTES,
    OldTopic,
    ensure_old,
    wait_until_local_is_small,
)

LINKS: Mapping[str, Link] = {
    "0 ms": Link(),
    "10 ms": Link(latency_ms=10),
    "100 ms": Link(latency_ms=100),
    "10 ms, 25 MB/s": Link(latency_ms=10, mb_per_s=25),
}
DISK = Case("broker's own disk")
_TOPIC = "far-away"
_COPIED = 'kafka_server_BrokerTopicMetrics_Count{name="RemoteCopyBytesPerSec"}'
_FETCHED = 'kafka_server_BrokerTopicMetrics_Count{name="RemoteFetchBytesPerSec"}'


@dataclass(frozen=True, slots=True)
class _Size:
    """The amounts at one scale."""

    megabytes: int
    segment_bytes: int
    repeats: int
    seconds_a_run: float

    @property
    def records(self) -> int:
        return self.megabytes * 1_000_000 // RECORD_BYTES


_SIZES = {
    Scale.SMOKE: _Size(16, 4 << 20, 1, 6.0),
    Scale.SMALL: _Size(48, 16 << 20, 2, 5.0),
    Scale.FULL: _Size(256, 64 << 20, 2, 23.0),
}


@cache
def _ports() -> tuple[int, int]:
    """The ports of the proxy and of the broker's metrics; every run uses the same."""
    return free_port(), free_port()


class RemoteTier:
    """Catching up from a slow store."""

    name = "remote_tier"
    summary = "an S3 behind 0, 10 and 100 ms and 25 MB/s: catching up, caches, billed requests"

    def cases(self, scale: Scale) -> Sequence[Case]:
        links = ("10 ms",) if scale is Scale.SMOKE else tuple(LINKS)
        return (DISK, *(Case(name, tiered=True) for name in links))

    def plan(self, scale: Scale) -> Plan:
        proxy_port, metrics_port = _ports()
        size = _SIZES[scale]
        return Plan(
            warm_up=0,
            repeats=size.repeats,
            fresh_broker="run",
            expected_seconds=size.repeats * size.seconds_a_run,
            properties={
                "rsm.config.url": f"s3://{BUCKET}/broker",
                "rsm.config.option.endpoint_url": f"http://127.0.0.1:{proxy_port}",
                "rsm.config.option.key": "tierlog-bench",
                "rsm.config.option.secret": "tierlog-bench",
                "tierlog.metrics.port": str(metrics_port),
            },
        )

    def refuses(self, case: Case, target: Target) -> str | None:
        if target.name != "tierlog":
            return (
                f"{target.name} is not started with a tier in S3; "
                "Kafka's LocalTieredStorage is a folder, which has no latency to inject"
            )
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        size = _SIZES[scale]
        topic = OldTopic(_TOPIC, size.records, size.segment_bytes, tiered=False)
        if not case.tiered:
            target.start()
            ensure_old(target, topic)
            _catch_up(target, topic, recorder)
            return
        proxy_port, _ = _ports()
        with S3Server(target.directory) as store:
            with SlowProxy(proxy_port, store.port, LINKS[case.name]) as proxy:
                target.start()
                try:
                    _measure_tiered(target, topic, recorder, proxy)
                finally:
                    # Killed before its store goes away, to avoid errors in its log.
                    target.kill()


def _measure_tiered(
    target: RunningTarget, topic: OldTopic, recorder: Recorder, proxy: SlowProxy
) -> None:
    from ...harness.requests.admin import alter_topic

    _, metrics_port = _ports()
    ensure_old(target, topic)
    # Tiered only now, so that all segments are there and copying never waits for a producer.
    settings = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
    alter_topic(target.bootstrap, topic.name, settings)
    wait_until_local_is_small(target, topic.name, topic.segment_bytes)
    metrics, counts, seen = read_metrics(metrics_port), proxy.counts, len(proxy.seen())
    copied = metrics[_COPIED]
    # Exclude the broker's probe of the store before its first copy.
    uploads = [each for each in proxy.seen() if topic.name in each.target]
    recorder.figure("copy_mb_per_s", copied / _span(uploads) / 1e6)
    _bill(recorder, "copy", counts_of(uploads), copied)
    _catch_up(target, topic, recorder)
    after = read_metrics(metrics_port)
    fetched = after[_FETCHED] - metrics[_FETCHED]
    if not fetched:
        raise MeasurementError("Nothing was read from the tier.")
    _bill(recorder, "fetch", proxy.counts - counts, fetched)
    for name, cache_name in (("chunk", "ChunkCache"), ("index", "RemoteIndexCache")):
        _cache_figures(recorder, name, f"tierlog_tiering_{cache_name}", (metrics, after))
    segments = [each for each in proxy.seen(seen) if each.kind == "read" and ".log" in each.target]
    seconds = read_one_by_one(proxy.port, segments)
    recorder.figure(
        "one_by_one_mb_per_s", sum(segment.received for segment in segments) / seconds / 1e6
    )


def _span(requests: Sequence[Seen]) -> float:
    """Seconds from the first request to the end of the last. Raises MeasurementError for none."""
    if not requests:
        raise MeasurementError("Nothing was copied through the proxy.")
    began = min(request.began_s for request in requests)
    return max(request.ended_s for request in requests) - began


def _catch_up(target: RunningTarget, topic: OldTopic, recorder: Recorder) -> None:
    """Read the whole topic and check every record."""
    load = Load(topic.records, RECORD_BYTES, batch_bytes=BATCH_BYTES)
    order = ("consume", "--bootstrap", target.bootstrap, "--topic", topic.name)
    with recorder.usage(target, nbytes=topic.total_bytes):
        result = run_client("librdkafka_load", *order, *load.arguments())
    recorder.figure("catch_up_mb_per_s", topic.total_bytes / result.figures["seconds"] / 1e6)


def _bill(recorder: Recorder, direction: str, counts: Counts, nbytes: float) -> None:
    """Record what a store would bill for each GB of records."""
    gigabytes = nbytes / GIGABYTE
    for kind in ("write", "read", "list", "delete"):
        requests: int = getattr(counts, kind)
        recorder.figure(f"{direction}_{kind}_requests_per_gb", requests / gigabytes)
    recorder.figure(f"{direction}_to_store_ratio", counts.to_store / nbytes)
    recorder.figure(f"{direction}_from_store_ratio", counts.from_store / nbytes)


def _cache_figures(
    recorder: Recorder,
    name: str,
    series: str,
    readings: tuple[Mapping[str, float], Mapping[str, float]],
) -> None:
    """Record the shares of cache lookups that were hits and that joined a fetch in progress."""
    before, after = readings
    lookups = {
        outcome: after[f"{series}_{outcome}_total"] - before[f"{series}_{outcome}_total"]
        for outcome in ("hits", "joined", "misses")
    }
    total = sum(lookups.values())
    if not total:
        raise MeasurementError(f"The cache of {name}s had no lookups.")
    recorder.figure(f"{name}_cache_hit_ratio", lookups["hits"] / total)
    recorder.figure(f"{name}_cache_joined_ratio", lookups["joined"] / total)


SCENARIO = RemoteTier()
