"""Counts what the hot calls execute and allocate, and compares it with the committed baseline.

Seconds are not reliable on a shared machine, so the guard counts instead: the bytecode instructions
of one call (with Python's own trace, without the standard library), and the peak of the memory
allocated while it runs. Both are the same in every run, and both grow with the mistakes that make a
hot path slow: one more layer, one more loop, one more copy of the bytes.

    python -m tierlog.bench.micro.costs           # each call, next to the baseline
    python -m tierlog.bench.micro.costs --write   # a new baseline, after an intended change
    python -m tierlog.bench.micro.costs --where "append 1 KiB, acks=all"   # function by function

Instructions differ between versions of Python, so the baseline includes the version.
"""

import argparse
import json
import sys
import sysconfig
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import NamedTuple, Protocol

from .hot_calls import HotCall, hot_calls

BASELINE = Path(__file__).with_name("costs.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
_MARK = "<!-- Written by `make baseline`. -->\n"
_TIMES = 5
_DEARER, _CHEAPER = 1.05, 0.85
_DEARER_ELSEWHERE = 1.5
_LIBRARY = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "<frozen")


class Cost(NamedTuple):
    """The cost of one call."""

    instructions: int
    """Bytecode instructions, without those of the standard library."""
    peak_bytes: int
    """The peak of allocated bytes during the call, above those allocated before it."""


class Baseline(NamedTuple):
    """Costs by call, and the Python version that they were counted with."""

    python: str
    costs: Mapping[str, Cost]


class _Trace(Protocol):
    def __call__(self, frame: FrameType, event: str, argument: object, /) -> "_Trace | None": ...


def python_version() -> str:
    """The major and minor version, on which the bytecode depends."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def load_baseline() -> Baseline:
    """The committed baseline."""
    content = json.loads(BASELINE.read_text())
    return Baseline(
        content["python"], {name: Cost(**cost) for name, cost in content["calls"].items()}
    )


def _instructions(call: HotCall) -> Counter[CodeType]:
    """The number of executed instructions, by code object."""
    executed: Counter[CodeType] = Counter()

    def inside(frame: FrameType, event: str, _argument: object) -> _Trace:
        if event == "opcode":
            executed[frame.f_code] += 1
        return inside

    def entered(frame: FrameType, _event: str, _argument: object) -> _Trace | None:
        if frame.f_code.co_filename.startswith(_LIBRARY):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return inside

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
    return executed


def _peak_bytes(call: HotCall) -> int:
    tracemalloc.start(1)
    try:
        call()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before


def measure(call: HotCall) -> Cost:
    """Medians of a few calls, after one to warm up: some calls also write an index entry."""
    if not call():
        raise AssertionError("The hot call did nothing.")
    return Cost(
        int(median(_instructions(call).total() for _ in range(_TIMES))),
        int(median(_peak_bytes(call) for _ in range(_TIMES))),
    )


def measure_all() -> dict[str, Cost]:
    """The cost of every hot call."""
    with TemporaryDirectory(prefix="tierlog-costs-") as directory, hot_calls(directory) as calls:
        return {name: measure(call) for name, call in calls.items()}


def complaints(measured: Mapping[str, Cost], baseline: Baseline) -> list[str]:
    """One sentence for each call whose cost differs from the baseline.

    A call that became much cheaper counts too: with an old baseline the next change could lose the
    gain unnoticed. Another Python version has other bytecode and other sizes; then only a call that
    costs at least half as much more counts.
    """
    is_same_python = baseline.python == python_version()
    sentences: list[str] = []
    for name, was in baseline.costs.items():
        for what, now, before, slack in (
            ("instructions", measured[name].instructions, was.instructions, 10),
            ("bytes at the peak", measured[name].peak_bytes, was.peak_bytes, 512),
        ):
            if now > before * (_DEARER if is_same_python else _DEARER_ELSEWHERE) + slack:
                sentences.append(f"{name}: {now} {what}, {before} before")
            elif is_same_python and now < before * _CHEAPER - slack:
                sentences.append(
                    f"{name}: only {now} {what}, {before} before: keep it in the baseline"
                )
    return sentences


def budget_table(costs: Mapping[str, Cost]) -> str:
    """The costs as the Markdown table of docs/performance.md."""
    rows = [
        f"| {name} | {cost.instructions:,} | {cost.peak_bytes:,} |" for name, cost in costs.items()
    ]
    return "\n".join(["| call | instructions | peak bytes |", "|---|---|---|", *rows]) + "\n"


def page_with(table: str, page: str) -> str:
    """The page with this table in place of the one after the mark."""
    before, mark, after = page.partition(_MARK)
    rest = after[after.index("\n## ") :]
    return f"{before}{mark}\n{table}{rest}"


def _write(costs: Mapping[str, Cost]) -> None:
    calls = {name: cost._asdict() for name, cost in costs.items()}
    content = json.dumps({"python": python_version(), "calls": calls}, indent=2)
    BASELINE.write_text(content + "\n")
    PAGE.write_text(page_with(budget_table(costs), PAGE.read_text()))


def _print_where(name: str) -> None:
    with TemporaryDirectory(prefix="tierlog-costs-") as directory, hot_calls(directory) as calls:
        calls[name]()
        executed = _instructions(calls[name])
    for code, instructions in executed.most_common(30):
        print(f"{instructions:8}  {code.co_qualname}  {Path(code.co_filename).name}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tierlog.bench.micro.costs")
    parser.add_argument(
        "--where",
        metavar="CALL",
        choices=load_baseline().costs,
        help="show one call, function by function",
    )
    parser.add_argument(
        "--write", action="store_true", help="write these costs as the new baseline"
    )
    options = parser.parse_args()
    if options.where:
        _print_where(options.where)
        return 0
    costs = measure_all()
    if options.write:
        _write(costs)
    baseline = load_baseline().costs
    print(f"{'':46}{'instructions':>14}{'was':>8}{'peak bytes':>12}{'was':>8}")
    for name, cost in costs.items():
        was = baseline.get(name, Cost(0, 0))
        print(
            f"{name:46}{cost.instructions:14}{was.instructions:8}"
            f"{cost.peak_bytes:12}{was.peak_bytes:8}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
