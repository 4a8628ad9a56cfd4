"""How a story of a tiered broker must end, once nothing fails any more.

Everything closed is in the tier, retention is obeyed, deleted topics are removed to the last
object, and two scrub intervals later no object is there that belongs to no segment.
"""

import asyncio
from collections.abc import Callable

from tierlog.clients.kafka_uuid import uuid_to_string
from tierlog.storage.remote.remote_segment import RemotePartitionDeleteState
from tierlog.tests.simulation.disk import SimulatedDirectory
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.network import on_host
from tierlog.tests.simulation.tier_records import Promises
from tierlog.tests.simulation.tier_story import LATEST_S, SCRUB_INTERVAL_S, Story
from tierlog.tests.simulation.tier_truth import FINISHED

QUIET_S = 1800
INDEX_CACHE = "/data/remote-log-index-cache"
# What a retention that runs every half second may be behind.
_BEHIND_MS = 5_000


async def end_well(story: Story) -> None:
    """Wait for what must come; check what must be."""
    # What a request of bad times has still to do is done by then.
    await asyncio.sleep(LATEST_S)
    await _until(lambda: untidy(story), QUIET_S, story)
    await asyncio.sleep(2 * SCRUB_INTERVAL_S + 5)
    assert not untidy(story), untidy(story)
    with on_host("client"):
        await story.read_all()
    _check_whole(story)
    _check_disk(story)
    story.require_no_failure()
    await story.broker.stop()


async def _until(is_untidy: Callable[[], str], seconds: float, story: Story) -> None:
    """Wait until nothing is untidy any more."""
    try:
        async with asyncio.timeout(seconds):
            while is_untidy():
                await asyncio.sleep(1)
                story.require_no_failure()
    except TimeoutError:
        raise AssertionError(is_untidy()) from None


def untidy(story: Story) -> str:
    """What is not as it must be in the end, in a sentence; empty if all is well."""
    for life in story.lives[:-1]:
        if found := _residue(story, life):
            return found
    return _unfinished(story, story.life) or _unexpired(story, story.life)


def _unfinished(story: Story, life: Promises) -> str:
    log, remote = story.truth.log(life.partition), story.truth.remote_log(life.partition)
    if log is None:
        return f"{life.partition} is not here"
    if unfinished := remote.unfinished_segments():
        return f"unfinished: {unfinished}"
    closed = log.local.active_segment.base_offset - 1
    if log.highest_remote_offset < closed and closed >= log.log_start_offset:
        return f"{life.partition} is copied up to {log.highest_remote_offset}, not to {closed}"
    return ""


def _unexpired(story: Story, life: Promises) -> str:
    """What retention should have taken."""
    log = story.truth.log(life.partition)
    assert log is not None
    segments = sorted(
        story.truth.remote_log(life.partition).segments(), key=lambda each: each.start_offset
    )
    if not segments:
        return ""
    first, now_ms = segments[0], SimulatedEnvironment(story.loop).wall_clock_ms()
    if first.end_offset < log.log_start_offset:
        return f"{first} lies below the log start offset {log.log_start_offset}"
    if 0 <= life.retention_ms < now_ms - first.max_timestamp_ms - _BEHIND_MS:
        return f"{first} is {now_ms - first.max_timestamp_ms} ms old, {life.retention_ms=}"
    total = sum(each.segment_size_bytes for each in segments) + sum(
        segment.size
        for segment in log.local.segments
        if segment.base_offset > log.highest_remote_offset
    )
    if 0 <= life.retention_bytes <= total - first.segment_size_bytes:
        return f"{total} bytes are there, and {first.segment_size_bytes} of them should go: {life}"
    return ""


def _residue(story: Story, life: Promises) -> str:
    """What is left of a topic that was deleted."""
    remote = story.truth.remote_logs().get(life.partition)
    if remote is None:
        # Nothing of it was ever on its way to the tier.
        return ""
    if left := remote.segments():
        return f"{len(left)} segments of the deleted {life.partition}: {left[0]}"
    state = remote.partition_delete_state
    # None where a crash came before the mark, and there was nothing to remove.
    if state is not None and state is not RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
        return f"the deleted {life.partition} is {state}"
    return ""


def _check_whole(story: Story) -> None:
    """Objects and metadata are those of the living log, whole."""
    truth, life = story.truth, story.life
    for segment in truth.remote_log(life.partition).segments():
        assert segment.state is FINISHED
        fault = truth.fault_of(segment, thorough=True)
        assert not fault, fault
    alien = [key for key, said in truth.keys().items() if said.topic_id_partition != life.partition]
    assert alien == [], "objects of a deleted topic"
    assert truth.orphans() == []


def _check_disk(story: Story) -> None:
    """No directory of a deleted topic, no cached index of a deleted segment."""
    disk, life = story.broker.disk, story.life
    logs = [
        name for name in disk.directory("/data").entries if name.startswith(life.partition.topic)
    ]
    assert logs == [str(life.partition.topic_partition)]
    living = {uuid_to_string(each.id) for each in story.truth.remote_log(life.partition).segments()}
    cache = disk.find(INDEX_CACHE)
    names = list(cache.entries) if isinstance(cache, SimulatedDirectory) else []
    dead = [name for name in names if not any(each in name for each in living)]
    assert dead == [], "cached indexes of segments that are gone"
