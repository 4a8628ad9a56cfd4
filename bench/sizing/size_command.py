"""`tierlog-bench size`: what each broker of a planned cluster needs, by the model.

Nothing is started or measured; docs/sizing.md explains the lines.
"""

import argparse
from collections.abc import Callable

from .costs import MEASURED, TABLE
from .model import (
    CORES_MAX,
    DEATH_HINT_S,
    Needs,
    Plan,
    Share,
    disk_gb,
    failover_s,
    fewest_brokers,
    metadata_mb,
    needs_of,
    open_files,
    share_of,
)

DESCRIPTION = """\
Print what each broker of a planned cluster needs: memory, CPU, disk, network, open files,
and how long a start and a failover take. The numbers come from a model of what was measured
(docs/sizing.md; `tierlog-bench run sizing` checks it on this machine). Nothing is started.
"""
EXAMPLES = """\
examples:
  tierlog-bench size --brokers 10 --partitions 1000 --mb-per-s 50
  tierlog-bench size --brokers 10 --partitions 1000 --mb-per-s 50 --readers 3 \\
      --retention-hours 168 --local-retention-hours 6    # with a tier
  tierlog-bench size --costs                           # the constants of the model
"""
_SESSION_TIMEOUT_S = 9.0
_REPLICAS = 3
_GB_IN_TB = 1000.0


def add_size_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tierlog-bench size`."""
    count, rate = parser.add_argument_group("the cluster"), parser.add_argument_group("its load")
    count.add_argument(
        "--brokers", metavar="N", type=int, default=3, help="broker processes (default: 3)"
    )
    count.add_argument(
        "--partitions",
        metavar="N",
        type=int,
        default=100,
        help="partitions of all topics (default: 100)",
    )
    count.add_argument(
        "--rf",
        "--replication-factor",
        dest="replication_factor",
        metavar="N",
        type=int,
        help="replicas of each partition (default: 3, or as many as there are brokers)",
    )
    rate.add_argument(
        "--mb-per-s",
        metavar="MB",
        type=float,
        default=10.0,
        help="what all producers send together, in 10⁶ bytes a second (default: 10)",
    )
    rate.add_argument(
        "--batch-kib",
        metavar="KIB",
        type=float,
        default=16.0,
        help="records in a batch, in KiB: a producer's batch.size if it is busy, what its linger.ms"
        " gathers if not (default: 16)",
    )
    rate.add_argument(
        "--readers",
        metavar="N",
        type=float,
        default=1.0,
        help="how many consumer groups read everything (default: 1)",
    )
    rate.add_argument(
        "--connections",
        metavar="N",
        type=int,
        default=100,
        help="connections of clients (default: 100)",
    )
    rate.add_argument(
        "--retention-hours",
        metavar="HOURS",
        type=float,
        default=168.0,
        help="how long records stay (default: 168)",
    )
    rate.add_argument(
        "--local-retention-hours",
        metavar="HOURS",
        type=float,
        help="all topics are tiered, and records stay this long on the brokers' disks",
    )
    parser.add_argument(
        "--costs", action="store_true", help="print the constants of the model, and nothing else"
    )


def size(options: argparse.Namespace) -> str:
    """The text to print. Raises PlanError."""
    if options.costs:
        return _costs()
    return report(
        Plan(
            options.brokers,
            options.partitions,
            options.replication_factor or min(_REPLICAS, options.brokers),
            options.mb_per_s,
            options.batch_kib,
            options.readers,
            options.retention_hours,
            options.local_retention_hours,
            options.connections,
        )
    )


def _costs() -> str:
    name_width = max(len(cost.name) for cost in TABLE)
    unit_width = max(len(cost.unit) for cost in TABLE)
    return "\n".join(
        f"{cost.name:{name_width}}  {cost.value:>8g} {cost.unit:{unit_width}}  "
        f"{cost.meaning} ({cost.where})"
        for cost in TABLE
    )


_Row = tuple[str, str, Callable[[Share, Needs], float]]
_ROWS: tuple[_Row, ...] = (
    ("partitions led", "", lambda share, _: share.led),
    ("partitions followed", "", lambda share, _: share.followed),
    ("memory", "MiB", lambda _, needs: needs.memory_mib),
    ("CPU", "cores", lambda _, needs: needs.cpu_cores),
    ("  of it while idle", "cores", lambda _, needs: needs.idle_cores),
    ("network in", "MB/s", lambda _, needs: needs.network_in_mb),
    ("network out", "MB/s", lambda _, needs: needs.network_out_mb),
    ("written to disk", "MB/s", lambda _, needs: needs.disk_written_mb),
)


def report(plan: Plan) -> str:
    """What each broker needs with all of them up and with one down, and what the whole has."""
    shares = [share_of(plan)]
    if plan.brokers > 1:
        shares.append(share_of(plan, down=1))
    columns = [(share, needs_of(share, MEASURED)) for share in shares]
    lines = [_heading(plan), ""]
    lines.append(
        f"{'each broker':22}{'all up':>12}{'one down':>12}"[: 34 if len(shares) == 1 else 46]
    )
    for label, unit, value in _ROWS:
        cells = "".join(f"{_number(value(*column)):>12}" for column in columns)
        lines.append(f"{label:22}{cells}  {unit}".rstrip())
    lines += ["", *_whole(plan, columns[0][1]), *_advice(plan, columns[-1][1])]
    return "\n".join(lines)


def _heading(plan: Plan) -> str:
    tier = ""
    if plan.is_tiered:
        tier = f", tiered after {plan.local_hours:g} h"
    return (
        f"{plan.brokers:,} brokers, {plan.partitions:,} partitions with RF "
        f"{plan.replication_factor}, {plan.mb_per_s:g} MB/s in batches of {plan.batch_kib:g} KiB, "
        f"read {plan.readers:g} times, kept {plan.retention_hours:g} h{tier}"
    )


def _whole(plan: Plan, needs: Needs) -> list[str]:
    waits = [failover_s(plan, MEASURED, each) for each in (_SESSION_TIMEOUT_S, DEATH_HINT_S)]
    files = _number(open_files(plan, MEASURED))
    lines = [
        f"disk of each broker    {_bytes(disk_gb(plan))} of records; leave a third free",
        f"open files of each     {files}; set `ulimit -n` to twice that",
        f"metadata on each node  {_number(metadata_mb(plan, MEASURED))} MB a snapshot",
        f"start after a stop     {_number(needs.start_s)} s",
        f"failover after a death {waits[0]:.1f} s; {waits[1]:.1f} s with tierlog.broker.death.hint",
    ]
    if plan.is_tiered:
        lines.append(f"in the tier            {_bytes(plan.tier_gb)}, one copy")
    return lines


def _advice(plan: Plan, with_one_down: Needs) -> list[str]:
    fewest = fewest_brokers(plan, MEASURED)
    if fewest is None:
        return ["", "This load needs more brokers than the model is for: use larger batches."]
    if with_one_down.cpu_cores > CORES_MAX:
        used = f"{with_one_down.cpu_cores:.2f} cores"
        return [
            "",
            f"Too few brokers: with one down, each would use {used}, and a process has about "
            f"{CORES_MAX:g}.",
            f"This load needs {fewest:,} brokers, or larger batches.",
        ]
    return ["", f"Enough CPU. As to CPU alone, {fewest:,} brokers would do."]


def _number(value: float) -> str:
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _bytes(gigabytes: float) -> str:
    if gigabytes >= _GB_IN_TB:
        return f"{gigabytes / _GB_IN_TB:,.1f} TB"
    return f"{_number(gigabytes)} GB"
