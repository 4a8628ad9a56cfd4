"""Random tiers as brokers leave them: elections, late and unfinished copies, retention, damage."""

import json
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.reading.scan_options import EARLIEST, LATEST
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.pipeline.spark.folder_tier import TOPIC
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket, from_log_start
from tierlog.tiering.store.manifest import TopicDescription
from tierlog.tiering.store.object_keys import object_stem

COPIES = ("copy",) * 14
ACCIDENTS = (
    *("election", "unclean election", "unfinished copy", "late copy", "copy made twice"),
    *("lost segment", "retention"),
)
DAMAGE = ("damaged manifest", "missing part", "damaged checkpoint")
PARTITIONS = 3


@dataclass
class RandomTier:
    """The objects of a tier, and which of them are damaged."""

    bucket: Bucket = field(default_factory=Bucket)
    damaged: set[str] = field(default_factory=set[str])
    """The stems of the segments whose manifests are, or name parts that are not there."""
    copies: int = 0

    def without_damaged(self) -> Bucket:
        """The same tier as if those segments had never been copied."""
        bucket = Bucket()
        bucket.objects = {
            key: content
            for key, content in self.bucket.objects.items()
            if not any(key.startswith(f"{stem}.") for stem in self.damaged)
        }
        return bucket


class _Log:
    """One partition's log, and what is copied of it."""

    def __init__(self, tier: RandomTier, partition: TopicIdPartition) -> None:
        self._tier = tier
        self._partition = partition
        self._history = [(0, 0)]
        self._start = 0
        self._next = 0
        """One past the last offset that was copied in this history."""
        self._segments: list[RemoteLogSegmentMetadata] = []

    def _put(self, first: int, last: int) -> RemoteLogSegmentMetadata:
        self._tier.copies += 1
        history = from_log_start(self._history, self._start)
        segment = self._tier.bucket.put(
            self._tier.copies,
            (first, last),
            [entry for entry in history if entry[1] <= last],
            partition=self._partition,
            topic=TopicDescription(PARTITIONS, {}),
            log_start=max(first, self._start),
        )
        self._segments.append(segment)
        return segment

    def _remove(self, segment: RemoteLogSegmentMetadata, *suffixes: str) -> None:
        stem = object_stem(segment)
        for key in list(self._tier.bucket.objects):
            if key.startswith(f"{stem}.") and (not suffixes or key.endswith(suffixes)):
                del self._tier.bucket.objects[key]
        if not suffixes:
            self._segments.remove(segment)
            self._tier.damaged.discard(stem)

    def act(self, act: str, size: int, choice: int) -> None:
        """Let one thing happen; `size` and `choice` are of its own."""
        if act == "copy" or not self._segments:
            self._put(self._next, self._next + size)
            self._next += size + 1
        elif act == "election":
            self._elect(self._next + choice % 4, self._next - size % 5)
        elif act == "unclean election":
            at = max(self._start, self._next - choice)
            self._history = [entry for entry in self._history if entry[1] < at]
            self._elect(at, at - size % 5)
        elif act == "late copy":
            first = max(self._start, self._next - choice % 30)
            if first < self._next:
                self._put(first, min(self._next - 1, first + 2 * size))
        elif act == "retention":
            self._retain(min(self._next - 1, self._start + choice), is_removed=size % 2 == 0)
        else:
            self._break(act, self._segments[-1 - choice % len(self._segments)])

    def _elect(self, epoch_start: int, first: int) -> None:
        """A new leader, that cuts its segments elsewhere and copies on."""
        epoch = 1 + max(each.segment_leader_epochs[-1][0] for each in self._segments)
        epoch = max(epoch, 1 + max((each for each, _ in self._history), default=0))
        self._history = [*self._history, (epoch, epoch_start)]
        last = epoch_start + 3
        self._put(max(self._start, first), last)
        self._next = last + 1

    def _retain(self, start: int, *, is_removed: bool) -> None:
        self._start = max(self._start, start)
        for segment in list(self._segments):
            if segment.end_offset < self._start and is_removed:
                self._remove(segment)

    def _break(self, act: str, segment: RemoteLogSegmentMetadata) -> None:
        stem = object_stem(segment)
        objects = self._tier.bucket.objects
        if act == "lost segment":
            self._remove(segment)
        elif act == "copy made twice":
            if self._start <= segment.start_offset and segment.end_offset < self._next:
                self._put(segment.start_offset, segment.end_offset)
        elif act == "unfinished copy":
            self._remove(segment, ".manifest")
        elif f"{stem}.manifest" in objects:
            if act == "damaged manifest":
                objects[f"{stem}.manifest"] = objects[f"{stem}.manifest"][:20]
                self._tier.damaged.add(stem)
            elif act == "missing part":
                self._remove(segment, ".index")
                self._tier.damaged.add(stem)
            else:
                objects[f"{stem}.leader_epoch_checkpoint"] = b"0\n1\n0 0\n?"
                self._tier.damaged.add(stem)


@st.composite
def random_tiers(draw: st.DrawFn) -> RandomTier:
    """Some partitions of a topic, rarely of two topics of one name; damage in some tiers alone."""
    tier = RandomTier()
    acts = COPIES + ACCIDENTS + (DAMAGE if draw(st.integers(0, 3)) == 0 else ())
    ids = [PARTITION.topic_id]
    if draw(st.integers(0, 9)) == 0:
        ids.append(Uuid(b"another topic id"))
    for topic_id in ids:
        for number in range(draw(st.integers(1, PARTITIONS))):
            log = _Log(tier, TopicIdPartition(topic_id, TOPIC, number))
            each = st.tuples(st.sampled_from(acts), st.integers(0, 9), st.integers(0, 60))
            for act in draw(st.lists(each, min_size=4, max_size=16)):
                log.act(*act)
    return tier


@st.composite
def random_options(draw: st.DrawFn) -> dict[str, str]:
    """What a scan may ask of such a tier."""
    options: dict[str, str] = {}
    numbers = range(PARTITIONS)
    match draw(st.sampled_from(["all", "partition", "assign"])):
        case "partition":
            only = draw(st.integers(0, PARTITIONS - 1))
            options["partition"] = str(only)
            numbers = range(only, only + 1)
        case "assign":
            numbers = range(draw(st.integers(1, PARTITIONS)))
            options["assign"] = json.dumps({TOPIC: [*numbers]})
        case _:
            pass
    if draw(st.integers(0, 3)) == 0:
        options["failOnDataLoss"] = "false"
    if draw(st.integers(0, 9)) == 0:
        options["startingTimestamp"] = str(draw(st.integers(0, 500)))
        return options
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    for number in numbers:
        first = draw(st.integers(0, 60))
        starts[str(number)] = draw(st.sampled_from([first, first, EARLIEST]))
        ends[str(number)] = draw(st.sampled_from([first + draw(st.integers(0, 20)), LATEST]))
    options["startingOffsets"] = json.dumps({TOPIC: starts})
    options["endingOffsets"] = json.dumps({TOPIC: ends})
    return options
