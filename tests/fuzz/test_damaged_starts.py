"""Starts on damaged files: nothing is lost without a line, nothing ends in a traceback.

A broker has a plain topic with transactions, a tiered one and a compacted one. It stops or is
killed (`disk_template.py`); then one file of its disk is damaged, and the next start serves what
can be served, or says in one sentence which file it cannot do without. `--seeds 0-9999` runs ten
thousand.
"""

import asyncio
import logging
import random
import traceback
from copy import deepcopy
from fnmatch import fnmatch
from typing import NamedTuple

import pytest

from tierlog.broker.broker import StartError
from tierlog.clients.consumer.completed_fetch import UndecodableRecordsError
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.checkpoint import (
    LOG_START_FILE,
    MalformedCheckpointError,
    read_offset_checkpoint,
)
from tierlog.tests.fuzz.damages import Damage, damage_to, damaged, paths_on
from tierlog.tests.fuzz.disk_template import (
    COMPACTED,
    PLAIN,
    PROPERTIES,
    TIERED,
    Table,
    Template,
    log_of,
    readable_in,
    records_of,
    restore_tier,
    table_in,
    template,
    tier_objects,
)
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork, on_host

MAY_REFUSE = ("meta.properties", "quorum-state", "bootstrap.checkpoint", "partition.metadata")
"""What says whose data this is, and which votes were cast: a start cannot guess it."""

FOUND_SOMETHING = (
    ("plain-0/00000000000000000000.log", "removed"),
    ("remote-log-index-cache/48_*.index", "directory"),
    ("cleaner-offset-checkpoint", "directory"),
    ("meta.properties", "emptied"),
    ("__cluster_metadata-0/quorum-state", "directory"),
)
"""Damages that were not told once, or ended a start."""


class Outcome(NamedTuple):
    """What a start on a damaged disk has come to."""

    refusal: str
    plain: bytes | None
    """None: whoever reads it is told that it is damaged."""
    tiered: list[int]
    table: Table | None
    """Of the compacted log; None as above."""
    lines: list[str]
    tracebacks: list[str]


class Listener(logging.Handler):
    """All that a broker says."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


async def offsets_in(loop: SimulatedLoop, broker: SimulatedBroker) -> list[int]:
    """What a consumer gets of the tiered topic, from its beginning, in a minute."""
    environment = SimulatedEnvironment(loop, "consumer")
    offsets: list[int] = []
    with on_host("client"):
        async with Consumer(broker.bootstrap, environment=environment) as consumer:
            consumer.assign([TIERED])
            consumer.seek_to_beginning([TIERED])
            end = (await consumer.end_offsets([TIERED]))[TIERED]
            for _ in range(60):
                if offsets and offsets[-1] >= end - 1:
                    break
                offsets += [record.offset for record in await consumer.poll(timeout_ms=1000)]
    return offsets


def start_on(disk: SimulatedDisk, seed: int, template_end: int) -> Outcome:
    listener = Listener()

    async def story(loop: SimulatedLoop) -> Outcome:
        broker = SimulatedBroker(loop, SimulatedNetwork(loop), PROPERTIES)
        broker.disk = disk
        try:
            await broker.start()
        except StartError as error:
            return Outcome(str(error), b"", [], None, [], [])
        try:
            await asyncio.sleep(20)
            if broker.logs is None or broker.logs.get_log(PLAIN) is None:
                return Outcome("", b"", [], {}, [], [])
            try:
                tiered = await offsets_in(loop, broker)
            except UndecodableRecordsError:
                # The checksum of a batch is what tells a consumer, here as in Kafka.
                tiered = list(range(template_end))
            compacted = broker.logs.get_log(COMPACTED)
            table = {} if compacted is None else table_in(compacted)
            return Outcome("", readable_in(log_of(broker, PLAIN)), tiered, table, [], [])
        finally:
            await broker.stop()

    root = logging.getLogger()
    root.addHandler(listener)
    try:
        found = simulate(story, seed, time_limit_s=3600)
    finally:
        root.removeHandler(listener)
    lines = [record.getMessage() for record in listener.records]
    tracebacks = [
        "".join(traceback.format_exception(record.exc_info[1]))
        for record in listener.records
        if record.exc_info and record.exc_info[1] is not None
    ]
    return found._replace(lines=lines, tracebacks=tracebacks)


Starts = dict[TopicPartition, int]


def stated_starts(disk: SimulatedDisk) -> Starts:
    """Where the checkpoint has the logs begin.

    It has no checksum: a number that has become another one is believed, here as in Kafka.
    """
    try:
        return read_offset_checkpoint(SimulatedFiles(disk), f"/data/{LOG_START_FILE}")
    except (MalformedCheckpointError, OSError):
        return {}


def check(damage: Damage, before: Template, found: Outcome, starts: Starts) -> None:
    start = starts.get(TIERED, 0)
    log_text = "\n".join(found.lines)
    assert not found.tracebacks, found.tracebacks[0]
    # A copy that is not known to have ended is made anew from the local log, under another name.
    lost = records_of(before.objects) - records_of(tier_objects())
    assert all(int(base) < start for base, _ in lost), "the tier has lost records"
    if found.refusal:
        is_metadata = damage.folder.startswith("__cluster_metadata")
        assert is_metadata or damage.name in MAY_REFUSE, found.refusal
        assert damage.folder in found.refusal or damage.name in found.refusal, found.refusal
        return
    is_whole = found.plain is None or len(found.plain) == len(before.plain)
    if not is_whole and not starts.get(PLAIN):
        # Bytes that are others than before are for the checksum to find, which consumers look at.
        assert "plain-0" in log_text, f"records are lost without a line:\n{log_text}"
    is_same = found.table is None or found.table == before.table
    if not is_same and not starts.get(COMPACTED):
        assert "compacted-0" in log_text, f"a table has changed without a line:\n{log_text}"
    expected = list(range(start, before.tiered_offsets))
    if found.tiered != expected:
        missing = set(expected) - set(found.tiered)
        assert "tiered-0" in log_text, f"{sorted(missing)} are lost without a line:\n{log_text}"


@pytest.mark.seeds("0-19", long="20-299")
def test_a_start_on_a_damaged_file_loses_nothing_in_silence(simulation_seed: int) -> None:
    chance = random.Random(simulation_seed)
    before = template(chance.random() < 0.5)
    disk, damage = damaged(before.disk, chance)
    restore_tier(before.objects)
    starts = stated_starts(disk)
    try:
        check(damage, before, start_on(disk, simulation_seed, before.tiered_offsets), starts)
    except BaseException as error:
        error.add_note(f"{damage.kind} of {damage.path}")
        raise


def test_a_start_on_whole_files_finds_everything_and_says_nothing() -> None:
    for is_clean in (True, False):
        before = template(is_clean)
        restore_tier(before.objects)
        found = start_on(deepcopy(before.disk), 0, before.tiered_offsets)
        assert (found.plain, found.table, found.lines) == (before.plain, before.table, [])
        assert found.tiered == list(range(before.tiered_offsets))


@pytest.mark.parametrize(("path", "kind"), FOUND_SOMETHING)
@pytest.mark.parametrize("is_clean", [True, False])
def test_what_a_damage_has_found_stays_mended(path: str, kind: str, is_clean: bool) -> None:
    before = template(is_clean)
    (there,) = (each for each in paths_on(before.disk) if fnmatch(each, f"/data/{path}"))
    disk, damage = damage_to(before.disk, there, kind)
    restore_tier(before.objects)
    check(damage, before, start_on(disk, 0, before.tiered_offsets), stated_starts(disk))
