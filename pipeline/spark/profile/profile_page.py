"""The HTML report of a profile: plots, most of them with a table."""

from collections.abc import Sequence
from datetime import UTC, datetime

from ....clients.text_table import counted
from ....tiering.tools.terminal import human_bytes
from ...plots.canvas import BLUE, DASHES, GREEN, PALETTE, Axes, Canvas, label_of
from ..page.report_page import Page, Section
from .profile_report import (
    ProfileReport,
    codec_table,
    forecast_table,
    key_table,
    topic_table,
)
from .retention_forecast import Forecast
from .topic_profile import TopicProfile

_BARS_AT_MOST = 30
_SIZES_LABELLED = 12
_LINES_AT_MOST = 7
"""The most topics in a plot of lines, one per colour; the tables and --json have all."""

_BYTE = 1024.0


def profile_page(report: ProfileReport, made_ms: int) -> str:
    """The HTML of the report."""
    sections: list[Section] = []
    if report.topics:
        sections += [_sizes(report), _rates(report), _record_sizes(report), _codecs(report)]
        sections.append(_keys(report))
    sections.append(_retention(report))
    records = sum(topic.records for topic in report.topics)
    topics = len({forecast.topic for forecast in report.forecasts})
    nbytes = sum(
        each.nbytes for each in {forecast.topic: forecast for forecast in report.forecasts}.values()
    )
    said = f"{counted(topics, 'topic')}, {human_bytes(nbytes)} in the tier"
    if report.topics:
        said += f", {counted(records, 'record')}"
    return Page("Profile of a tier", report.tier, made_ms, said, True, sections).html()


def _largest(topics: Sequence[TopicProfile], number: int) -> list[TopicProfile]:
    return sorted(topics, key=lambda each: each.nbytes, reverse=True)[:number]


def _of(shown: int, all_of_them: int) -> str:
    return f" The {shown} largest of {all_of_them:,} topics." if shown < all_of_them else ""


def _rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks([float(row) for row in range(len(names))], names)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.invert_yaxis()
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)


def _sizes(report: ProfileReport) -> Section:
    shown = _largest(report.topics, _BARS_AT_MOST)
    says = (
        "The size of each topic in the tier, and the decompressed size of its records. On the "
        "right, the sizes of its partitions: the further apart the dots, the more these differ."
    )
    rows = [float(row) for row in range(len(shown))]
    with Canvas(10, 1.8 + 0.4 * len(shown), columns=2) as canvas:
        bars, dots = canvas.axes[0]
        stored = [each.nbytes / _BYTE**2 for each in shown]
        plain = [each.whole.plain / _BYTE**2 for each in shown]
        bars.barh(
            [row - 0.19 for row in rows], stored, height=0.36, color=BLUE, label="in the tier"
        )
        bars.barh(
            [row + 0.19 for row in rows],
            plain,
            height=0.36,
            facecolor="#cfe3f1",
            edgecolor=BLUE,
            hatch="////",
            linewidth=0.6,
            label="decompressed",
        )
        bars.set_xlabel("size (MiB)")
        _rows(bars, [label_of(each.topic) for each in shown])
        for row, topic in zip(rows, shown, strict=True):
            sizes = [partition.nbytes / _BYTE**2 for partition in topic.partitions.values()]
            dots.plot(sizes, [row] * len(sizes), linestyle="", marker="o", alpha=0.6, color=BLUE)
        dots.set_xlabel("size of each partition (MiB)")
        dots.set_xlim(
            0, 1.08 * max(p.nbytes for t in shown for p in t.partitions.values()) / _BYTE**2
        )
        _rows(dots, [""] * len(shown))
        canvas.legend()
        table = topic_table(report)
        says += _of(len(shown), len(report.topics))
        return Section("Sizes", says, canvas.svg(), table.head, table.rows)


def _rates(report: ProfileReport) -> Section:
    busiest = sorted(report.topics, key=lambda each: each.records, reverse=True)
    shown = [each for each in busiest if each.rates.steps][:_LINES_AT_MOST]
    says = (
        "The records and bytes per second of each topic, by the timestamps of the records. Bytes "
        "are those of keys and values."
    )
    with Canvas(10, 5.2, rows=2) as canvas:
        records, nbytes = canvas.axes[0][0], canvas.axes[1][0]
        for number, topic in enumerate(shown):
            rates = topic.rates.rates()
            # A step ends where the next one begins, so add one after the last.
            rates.append((rates[-1][0] + topic.rates.width_ms, *rates[-1][1:]))
            times = [_time(rate[0]) for rate in rates]
            style = {"color": PALETTE[number], "linestyle": DASHES[number % len(DASHES)]}
            records.step(
                times,
                [rate[1] for rate in rates],
                where="post",
                label=label_of(topic.topic),
                **style,
            )
            nbytes.step(times, [rate[2] / _BYTE for rate in rates], where="post", **style)
        records.set_ylabel("records/s")
        nbytes.set_ylabel("KiB/s")
        nbytes.set_xlabel("time of the records (UTC)")
        for axes in (records, nbytes):
            axes.xaxis_date()
            axes.grid(True)
            axes.set_axisbelow(True)
        if shown:
            canvas.legend()
        return Section("Rates over time", says + _of(len(shown), len(busiest)), canvas.svg())


def _time(timestamp_ms: int) -> float:
    """Days since 1970, as matplotlib counts dates; capped at the year 9000."""
    last = datetime(9000, 1, 1, tzinfo=UTC).timestamp() * 1000
    return min(timestamp_ms, last) / 86_400_000


def _record_sizes(report: ProfileReport) -> Section:
    shown = _largest(report.topics, _LINES_AT_MOST)
    powers = [power for each in shown for power in each.sizes.counts]
    steps = list(range(min(powers, default=0), max(powers, default=0) + 1))
    says = "The sizes of the records, key and value together, in powers of two."
    with Canvas(10, 3.4) as canvas:
        axes = canvas.axes[0][0]
        for number, topic in enumerate(shown):
            total = max(sum(topic.sizes.counts.values()), 1)
            axes.plot(
                [float(step) for step in steps],
                [100 * topic.sizes.counts.get(step, 0) / total for step in steps],
                color=PALETTE[number],
                linestyle=DASHES[number % len(DASHES)],
                marker="os^Dv<>"[number],
                label=label_of(topic.topic),
            )
        labelled = steps[:: 1 + len(steps) // _SIZES_LABELLED]
        axes.set_xticks(
            [float(each) for each in labelled], [_power_text(each) for each in labelled]
        )
        axes.set_xlabel("record size (from the label up to twice that)")
        axes.set_ylabel("share of records (%)")
        axes.grid(True, axis="y")
        axes.set_axisbelow(True)
        canvas.legend()
        return Section("Sizes of records", says + _of(len(shown), len(report.topics)), canvas.svg())


def _power_text(power: int) -> str:
    if power < 0:
        return "empty"
    return human_bytes(1 << power).replace(".0 ", " ")


def _codecs(report: ProfileReport) -> Section:
    table = codec_table(report)
    ratios = [
        (label_of(topic.topic, f", {codec}"), totals.ratio)
        for topic in _largest(report.topics, _BARS_AT_MOST)
        for codec, totals in sorted(topic.codecs.items())
    ][:_BARS_AT_MOST]
    says = (
        "How many bytes one stored byte stands for. At 1 (dashed), compression saves nothing: the "
        "codec is none, or the values are already compressed or random."
    )
    with Canvas(10, 1 + 0.32 * len(ratios)) as canvas:
        axes = canvas.axes[0][0]
        rows = [float(row) for row in range(len(ratios))]
        axes.barh(rows, [ratio for _, ratio in ratios], color=GREEN, height=0.7)
        for row, (_, ratio) in zip(rows, ratios, strict=True):
            axes.text(ratio, row, f" {ratio:.2f}×", va="center", fontsize=8.5)
        axes.axvline(1, color="#444444", linestyle="--", linewidth=1)
        axes.set_xlim(0, 1.12 * max((ratio for _, ratio in ratios), default=1))
        axes.set_xlabel("compression (times)")
        _rows(axes, [name for name, _ in ratios])
        return Section("Compression by codec", says, canvas.svg(), table.head, table.rows)


def _keys(report: ProfileReport) -> Section:
    table = key_table(report)
    says = (
        "The share of a topic's records that the most frequent keys have. A line that is steep on "
        "the left means that a few keys, and so one or two partitions, carry most of the load; "
        "with equally frequent keys the line would stay near zero."
    )
    keyed = [each for each in _largest(report.topics, len(report.topics)) if each.keys.counts]
    if not keyed:
        says = "No key stands out, or no record has a key."
        return Section("Frequent keys", says, None, table.head, table.rows)
    with Canvas(10, 3.8) as canvas:
        axes = canvas.axes[0][0]
        for number, topic in enumerate(keyed[:_LINES_AT_MOST]):
            shares: list[float] = []
            total = 0.0
            for _, count in topic.keys.top(len(topic.keys.counts)):
                total += 100 * count / topic.records
                shares.append(total)
            axes.plot(
                [float(each) for each in range(1, len(shares) + 1)],
                shares,
                color=PALETTE[number],
                linestyle=DASHES[number % len(DASHES)],
                marker="." if len(shares) < 40 else "",
                label=label_of(topic.topic, f": {counted(topic.keys.distinct, 'key')}"),
            )
        axes.set_xscale("log")
        longest = max(len(each.keys.counts) for each in keyed[:_LINES_AT_MOST])
        ticks = [each for each in (1, 3, 10, 30, 100, 300, 1000) if each <= max(longest, 10)]
        axes.set_xticks([float(tick) for tick in ticks], [f"{tick:,}" for tick in ticks])
        axes.set_ylim(0, 104)
        axes.set_xlabel("number of most frequent keys")
        axes.set_ylabel("their share of the records (%)")
        axes.grid(True)
        axes.set_axisbelow(True)
        canvas.legend()
        return Section("Frequent keys", says, canvas.svg(), table.head, table.rows)


def _retention(report: ProfileReport) -> Section:
    table = forecast_table(report)
    says = (
        "The size that each topic would have if this retention were set now. Whole segments are "
        "deleted, oldest first, by the broker's rules. retention.bytes applies to each partition."
    )
    shown = [each for each in _by_topic(report.forecasts) if len(each) > 1][:_LINES_AT_MOST]
    svg = None
    if shown:
        names = [forecast.setting.name.removeprefix("retention.") for forecast in shown[0]]
        with Canvas(10, 3.8) as canvas:
            axes = canvas.axes[0][0]
            steps = [float(each) for each in range(len(names))]
            for number, each in enumerate(shown):
                axes.plot(
                    steps,
                    [forecast.share * forecast.nbytes / _BYTE**2 for forecast in each],
                    color=PALETTE[number],
                    linestyle=DASHES[number % len(DASHES)],
                    marker="os^Dv<>"[number],
                    label=label_of(each[0].topic),
                )
            axes.set_xticks(steps, names)
            axes.set_ylabel("remaining size (MiB)")
            axes.set_ylim(0, 1.08 * max(each[0].nbytes for each in shown) / _BYTE**2)
            axes.grid(True)
            axes.set_axisbelow(True)
            canvas.legend()
            svg = canvas.svg()
    return Section("Retention forecast", says, svg, table.head, table.rows)


def _by_topic(forecasts: Sequence[Forecast]) -> list[list[Forecast]]:
    topics: dict[str, list[Forecast]] = {}
    for forecast in forecasts:
        topics.setdefault(forecast.topic, []).append(forecast)
    return sorted(topics.values(), key=lambda each: -each[0].nbytes)
