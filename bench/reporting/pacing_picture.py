"""Draws what a consumer on librdkafka reads over time, with the pacing of fetches and without.

One topic with one partition, ten million records of 100 B, and confluent-kafka's `consume(1000)`
with its default settings, once at a broker that paces fetches and once at one that does not:

    python -m tierlog.bench.reporting.pacing_picture docs/pictures/paced-fetches.svg
"""

import argparse
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from confluent_kafka import Consumer

from ...pipeline.plots.canvas import BLUE, GREY, ORANGE, Canvas
from ..harness.loads.client_process import run_client
from ..harness.loads.load import Load
from ..harness.processes.tierlog_node import TierlogNode
from ..harness.requests.admin import create_topic

_TOPIC = "paced"
_RECORDS_A_CALL = 1_000
_TIMEOUT_S = 1.0
_SLICE_S = 0.1
_PATIENCE_S = 30.0


def records_over_time(bootstrap: str, topic: str, records: int) -> list[int]:
    """How many records a consumer has read after each tenth of a second since its first record.

    Raises TimeoutError if there is no record for half a minute.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"picture-{time.time_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    counted = [0]
    read, first, latest = 0, 0.0, time.perf_counter()
    while read < records:
        messages = consumer.consume(_RECORDS_A_CALL, _TIMEOUT_S)
        now = time.perf_counter()
        if not messages and now - latest > _PATIENCE_S:
            raise TimeoutError(f"{read} of {records} records were read, and then none")
        if messages:
            latest = now
        first = first or (now if messages else 0.0)
        while first and now - first > len(counted) * _SLICE_S:
            counted.append(read)
        read += len(messages)
    counted.append(read)
    consumer.close()
    return counted


def measure(records: int, is_paced: bool) -> list[int]:
    """Start a broker, fill a topic and read it; as `records_over_time`."""
    with TemporaryDirectory(prefix="tierlog-pacing-") as folder:
        properties = {
            "remote.log.storage.system.enable": "false",
            "tierlog.fetch.pacing.enable": str(is_paced).lower(),
        }
        node = TierlogNode(Path(folder), properties=properties)
        node.start()
        try:
            create_topic(node.bootstrap, _TOPIC)
            load = Load(records, 100)
            order = ("produce", "--bootstrap", node.bootstrap, "--topic", _TOPIC)
            run_client("defaults.librdkafka_fill", *order, *load.arguments())
            return records_over_time(node.bootstrap, _TOPIC, records)
        finally:
            node.kill()


def picture(paced: Sequence[int], unpaced: Sequence[int], seconds: float) -> str:
    """Two axes over time, as SVG: the records read in all, and the records a second."""
    with Canvas(8.2, 3.4, columns=2) as canvas:
        total, rate = canvas.axes[0]
        for counted, colour, dash, label in (
            (paced, BLUE, "-", "fetches paced (the default)"),
            (unpaced, ORANGE, "--", "tierlog.fetch.pacing.enable=false"),
        ):
            shown = counted[: int(seconds / _SLICE_S) + 1]
            at = [index * _SLICE_S for index in range(len(shown))]
            total.plot(at, [count / 1e6 for count in shown], color=colour, ls=dash, label=label)
            rates = [(b - a) / _SLICE_S / 1e6 for a, b in pairwise(shown)]
            rate.step(at[1:], rates, color=colour, ls=dash, where="pre", lw=1.2)
        for axes, title, label in (
            (total, "Read since the first record", "million records"),
            (rate, "Read in each tenth of a second", "million records/s"),
        ):
            axes.set_title(title)
            axes.set_xlabel("seconds")
            axes.set_ylabel(label)
            axes.grid(True, lw=0.5)
            axes.axhline(0, color=GREY, lw=0.5)
        canvas.legend()
        return canvas.svg()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="the SVG file to write")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=12.0, help="how much of it is drawn")
    stated = cast("dict[str, object]", vars(parser.parse_args(arguments)))
    records, seconds = cast("int", stated["records"]), cast("float", stated["seconds"])
    series: list[list[int]] = []
    for is_paced in (True, False):
        counted = measure(records, is_paced)
        series.append(counted)
        took = (len(counted) - 1) * _SLICE_S
        name = "paced" if is_paced else "not paced"
        print(f"{name}: {records:,} records in {took:.1f} s, {records / took:,.0f} records/s")
    cast("Path", stated["file"]).write_text(picture(series[0], series[1], seconds), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
