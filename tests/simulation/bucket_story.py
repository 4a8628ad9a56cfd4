"""Histories of a bucket: everything that happens to a topic and leaves its trace in the tier.

One topic of one partition has three replicas, each with a log of its own (`bucket_replicas.py`), of
which one leads. Leaders are elected, cleanly and uncleanly; replicas cut their segments where they
like, lag behind, and begin anew from the tier; clients trim the log; copies are finished, given up
half-way, or whole and never finished; metadata is lost and gaps are repaired; retention takes the
oldest segments, and may be cut short in the midst of one; the topic is deleted, its objects go bit
by bit, and it is made again under its name.

Only the network and the clock are made up: what a segment's metadata and objects are, what may
expire and what is found again is decided by the code that a broker runs. At random moments
`bucket_truth.py` compares what a rebuild makes of the bucket with what is true.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.checksum import crc32c
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.log.aux_state import AuxRequest, aux_state
from tierlog.storage.remote.log_gaps import segments_in_gaps
from tierlog.storage.remote.remote_lineage import copied_up_to
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_retention import (
    Exempt,
    RetentionLimits,
    decide_retention,
    is_last_copy,
)
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.simulation.bucket_replicas import Replica, Stored, batch_of
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.manifest import (
    Manifest,
    Part,
    TopicDescription,
    decode_manifest,
    encode_manifest,
)
from tierlog.tiering.store.object_keys import MANIFEST_SUFFIX, object_key, partition_prefix
from tierlog.tiering.task.expiration_task import facts_of
from tierlog.tiering.task.leader_term import bounds_of
from tierlog.tiering.task.segment_parts import Attempt

STATE = RemoteLogSegmentState
TOPIC = "orders"
REPLICAS = 3
STEPS = 70
NEIGHBOUR = TopicIdPartition(Uuid(b"of the neighbour"), "payments", 0)
"""A topic that nothing happens to."""

RARE = (
    "elected",
    "elected uncleanly",
    "began anew from the tier",
    "trimmed",
    "log start in the midst of a segment",
    "copied",
    "given up",
    "never finished",
    "cleaned up",
    "expired",
    "expiry cut short",
    "metadata lost",
    "gap repaired",
    "recreated",
    "topics of one name",
    "dead branch in the bucket",
    "hole below the log start",
    "damaged",
    "several holes",
    "compared",
    "compared with a consumer",
    "rebuilt from the middle of a segment",
)
"""What must happen somewhere in a small set of seeds."""


class Life:
    """One incarnation of the topic."""

    def __init__(self, partition: TopicIdPartition) -> None:
        self.partition = partition
        self.replicas = [Replica(number, partition) for number in range(REPLICAS)]
        self.leader = self.replicas[0]
        self.in_sync = set(range(REPLICAS))
        self.fetched = set(self.in_sync)
        """Who has fetched from this leader: what others have may be of another branch."""
        self.epoch = 0
        self.remote = RemoteLog(partition)
        self.stored: dict[Uuid, Stored] = {}
        """All that was ever copied of it."""
        self.leader.log.leader_epochs.assign(0, 0)

    @property
    def history(self) -> list[tuple[int, int]]:
        entries = self.leader.log.leader_epochs.entries
        return [(entry.epoch, entry.start_offset) for entry in entries]


class BucketStory:
    """See the module."""

    def __init__(self, seed: int, check: "Callable[[BucketStory], None]") -> None:
        self.seed = seed
        self.chance = random.Random(f"bucket {seed}")
        self.counts: Counter[str] = Counter()
        self.bucket = Bucket()
        self.neighbours = [
            self.bucket.put(number, (first, first + 9), partition=NEIGHBOUR)
            for number, first in ((10_001, 0), (10_002, 10))
        ]
        self.now_ms = 1_000
        self._made = 0
        self._check = check
        self.version = 0
        """Of the topic's configuration."""
        self.versions: dict[Uuid, int] = {}
        """By segment, retention.ms as its manifest has it."""
        self._half_deleted: set[str] = set()
        self.life = self._new_life()
        self.dying: list[Life] = []
        """Incarnations whose objects are being removed."""

    def run(self) -> None:
        """Let everything happen, and look now and then."""
        actions = [self.produce] * 10 + [self.replicate] * 8 + [self.copy] * 10 + [self.roll] * 3
        actions += [self.elect] * 3 + [self.elect_uncleanly, self.trim, self.trim, self.expire]
        actions += [self.clean_up, self.lose_metadata, self.repair_gaps, self.repair_gaps]
        actions += [self.remove_dying, self.configure]
        often = self.chance.choice((0, 0, 1))
        actions += [self.recreate] * often + [self.expire, self.trim, self.elect_uncleanly] * often
        try:
            for _ in range(STEPS):
                self.now_ms += 1_000
                self.chance.choice(actions)()
                if self.chance.random() < 0.2:
                    self._check(self)
            self._check(self)
        except BaseException as error:
            error.add_note(f"history of a bucket, seed {self.seed}, at step {self.now_ms // 1000}")
            raise

    def _id(self) -> Uuid:
        self._made += 1
        return Uuid(self._made.to_bytes(16, "big"))

    def _new_life(self) -> Life:
        topic_id = Uuid(b"topic" + self._id()[5:])
        return Life(TopicIdPartition(topic_id, TOPIC, 0))

    def produce(self) -> None:
        """Append some batches to the leader's log."""
        life = self.life
        for _ in range(self.chance.randrange(1, 5)):
            producer_id = self.chance.choice((-1, 1, 2, 3))
            batch = batch_of(self.chance.randrange(1, 4), life.leader.end, life.epoch, producer_id)
            life.leader.append(batch, self.now_ms)
            if self.chance.random() < 0.4:
                life.leader.log.roll(self.now_ms)
        self._commit()

    def roll(self) -> None:
        """Some replica closes its segment, as a restart or a jitter of its own has it do."""
        self.chance.choice(self.life.replicas).log.roll(self.now_ms)

    def replicate(self) -> None:
        """Some follower fetches."""
        life, leader = self.life, self.life.leader
        follower = self.chance.choice(life.replicas)
        if follower is leader:
            return
        begins = leader.written[0].first if leader.written else leader.end
        if follower.log.log_start_offset > leader.end or follower.end < begins:
            follower.begin_at(begins, leader)
        # Even where it loses no record: an epoch that it began without writing goes.
        agreed = follower.agrees_up_to(leader)
        if agreed is None:
            follower.begin_at(begins, leader)
        else:
            follower.truncate_to(agreed)
        if follower.end < leader.log.local_log_start_offset and not self._begin_anew(follower):
            return
        follower.follow(leader, self.now_ms, self.chance.choice((2, 100)))
        life.fetched.add(follower.number)
        follower.log.update_high_watermark(min(follower.end, leader.log.high_watermark))
        if self.chance.random() < 0.6:
            self._hear_log_start(follower)
        if self.chance.random() < 0.3:
            follower.log.roll(self.now_ms)
        if follower.end == leader.end:
            life.in_sync.add(follower.number)
        elif self.chance.random() < 0.3:
            life.in_sync.discard(follower.number)
        self._commit()

    def _hear_log_start(self, follower: Replica) -> None:
        start = min(self.life.leader.log.log_start_offset, follower.log.high_watermark)
        if follower.log.maybe_increment_log_start_offset(start):
            follower.log.delete_old_segments(self.now_ms)
            follower.forget_deleted()

    def _begin_anew(self, follower: Replica) -> bool:
        """Let a follower begin where the leader's local log does; False if it cannot yet."""
        life, leader = self.life, self.life.leader
        last = leader.log.local_log_start_offset - 1
        epoch = leader.log.leader_epochs.epoch_for_offset(last)
        segment = None if epoch is None else life.remote.segment_for(epoch, last)
        if segment is None or epoch is None:
            return False
        copied = life.stored[segment.id]
        if copied.log[-1] not in leader.ever:
            # It ends on a branch that was cut off: the follower would truncate, and ask again.
            return False
        parts = copied.parts
        request = AuxRequest(
            life.partition, epoch, last, leader.log.log_start_offset, life.epoch, True
        )
        state = aux_state(
            segment,
            request.leader_log_start_offset,
            parts["leader_epoch_checkpoint"],
            parts["snapshot"],
        )
        follower.start_over(leader, state, copied)
        self.counts["began anew from the tier"] += 1
        return True

    def _commit(self) -> None:
        life = self.life
        if not life.in_sync <= life.fetched:
            return
        committed = min(life.replicas[each].end for each in life.in_sync)
        log = life.leader.log
        if committed > log.high_watermark:
            log.update_high_watermark(committed)

    def elect(self) -> None:
        """Another replica that is in sync leads."""
        others = sorted(self.life.in_sync - {self.life.leader.number})
        if others:
            self._lead(self.life.replicas[self.chance.choice(others)])
            self.counts["elected"] += 1

    def elect_uncleanly(self) -> None:
        """Any replica leads, whatever it has: the others lose what it has not."""
        new = self.chance.choice(self.life.replicas)
        if new is not self.life.leader and new.end > new.log.log_start_offset:
            self.counts["elected uncleanly"] += new.number not in self.life.in_sync
            self._lead(new)
            self.life.in_sync = {new.number}
            self._commit()

    def _lead(self, new: Replica) -> None:
        life = self.life
        life.leader = new
        life.fetched = {new.number}
        life.epoch += 1
        new.log.leader_epochs.assign(life.epoch, new.end)
        new.log.bounds.forget_highest_remote()
        self._commit()

    def trim(self) -> None:
        """DeleteRecords: the log begins later, in the midst of a batch or of a segment."""
        log = self.life.leader.log
        if log.high_watermark <= log.log_start_offset:
            return
        span = log.high_watermark - log.log_start_offset
        most = self.chance.choice((span, max(1, span // 3)))
        offset = log.log_start_offset + self.chance.randint(1, most)
        log.maybe_increment_log_start_offset(offset)
        log.delete_old_segments(self.now_ms)
        self.life.leader.forget_deleted()
        self.counts["trimmed"] += 1

    def configure(self) -> None:
        """The topic's configuration changes."""
        self.version += 1

    def copy(self) -> None:
        """The leader copies its next segment, well or not."""
        self.repair_gaps()
        life = self.life
        log = life.leader.log
        copied = copied_up_to(life.remote, log.leader_epochs.entries, bounds_of(log))
        log.bounds.update_highest_remote(copied)
        segment_id = RemoteLogSegmentId(life.partition, self._id())
        attempt = Attempt(segment_id, life.leader.number, self.now_ms)
        stored = life.leader.copy(attempt, max(copied + 1, log.log_start_offset))
        if stored is None:
            return
        metadata = stored.metadata
        life.stored[metadata.id] = stored
        life.remote.apply_copy_started(metadata)
        if metadata.start_offset < log.log_start_offset:
            self.counts["log start in the midst of a segment"] += 1
        how = self.chance.random()
        self._put(stored, is_whole=how >= 0.12)
        if how < 0.12:
            self.counts["given up"] += 1
            return
        if how < 0.24:
            self.counts["never finished"] += 1
            return
        self._update(metadata, STATE.COPY_SEGMENT_FINISHED)
        self.counts["copied"] += 1
        if self.chance.random() < 0.6:
            copied = copied_up_to(life.remote, log.leader_epochs.entries, bounds_of(log))
            log.bounds.update_highest_remote(copied)
            log.delete_old_segments(self.now_ms)

    def _put(self, stored: Stored, *, is_whole: bool) -> None:
        metadata = stored.metadata
        parts = list(stored.parts.items())
        if not is_whole:
            parts = parts[: self.chance.randrange(len(parts) + 1)]
        for suffix, content in parts:
            self.bucket.objects[object_key(metadata, suffix)] = content
        if is_whole:
            sizes = {suffix: Part(len(each), crc32c(each)) for suffix, each in parts}
            retention_ms = self.versions[metadata.id] = 10**12 + self.version
            topic = TopicDescription(1, {"retention.ms": str(retention_ms)})
            content = encode_manifest(Manifest(metadata, sizes, topic))
            self.bucket.objects[object_key(metadata, MANIFEST_SUFFIX)] = content

    def _update(self, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
        update = RemoteLogSegmentMetadataUpdate(
            segment_id=segment.segment_id,
            event_timestamp_ms=self.now_ms,
            state=state,
            broker_id=self.life.leader.number,
        )
        self.life.remote.apply_update(update)

    def _delete(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Delete a segment, manifest first; False if the broker died in the midst of it."""
        self._update(segment, STATE.DELETE_SEGMENT_STARTED)
        keys = [object_key(segment, each) for each in (MANIFEST_SUFFIX, "log", "index")]
        keys += [key for key in self.bucket.objects if key.startswith(object_key(segment, ""))]
        if self.chance.random() < 0.1:
            keys = keys[: self.chance.randrange(3)]
            self._remove(keys)
            self._half_deleted.add(object_key(segment, ""))
            return False
        self._remove(keys)
        self._update(segment, STATE.DELETE_SEGMENT_FINISHED)
        return True

    def is_half_deleted(self, key: str) -> bool:
        """Whether a deletion of the object's segment was cut short."""
        return any(key.startswith(each) for each in self._half_deleted)

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            self.bucket.objects.pop(key, None)

    def clean_up(self) -> None:
        """The leader removes copies that were never finished, unless they may be the last."""
        self.repair_gaps()
        life = self.life
        log = life.leader.log
        for segment in list(life.remote.unfinished_segments()):
            facts = facts_of(log, life.remote)
            if segment.state is STATE.COPY_SEGMENT_STARTED and not is_last_copy(
                life.remote, facts, segment
            ):
                self._delete(segment)
                self.counts["cleaned up"] += 1

    def expire(self) -> None:
        """Retention takes what is too much; a store may refuse to give up one object."""
        self.repair_gaps()
        life = self.life
        log = life.leader.log
        limit = self.chance.choice((-1, 200, 1000))
        decision = decide_retention(
            life.remote,
            facts_of(log, life.remote),
            RetentionLimits(-1, limit),
            self.now_ms,
            Exempt((), copy_cleans_up=True),
        )
        if decision.log_start_offset > log.log_start_offset:
            log.maybe_increment_log_start_offset(decision.log_start_offset)
            log.delete_old_segments(self.now_ms)
            life.leader.forget_deleted()
        for segment, _ in decision.expired:
            self.counts["expired"] += 1
            if self.chance.random() < 0.05:
                # The store refuses: another round tries again.
                continue
            if not self._delete(segment):
                self.counts["expiry cut short"] += 1
                break

    def lose_metadata(self) -> None:
        """The events of some segment are lost, as by a power cut: its objects are not."""
        life = self.life
        finished = [
            each for each in life.remote.segments() if each.state is STATE.COPY_SEGMENT_FINISHED
        ]
        if not finished:
            return
        lost, begin_too = self.chance.choice(finished), self.chance.random() < 0.5
        again = RemoteLog(life.partition)
        for each in sorted(life.remote.segments(), key=lambda one: one.event_timestamp_ms):
            if each is lost and begin_too:
                continue
            again.apply_copy_started(replace(each, state=STATE.COPY_SEGMENT_STARTED))
            if each is not lost and each.state is not STATE.COPY_SEGMENT_STARTED:
                again.apply_update(_event(each))
        life.remote = again
        life.leader.log.bounds.forget_highest_remote()
        self.counts["metadata lost"] += 1

    def repair_gaps(self) -> None:
        """The leader finds again what is whole in the bucket and lost in the metadata."""
        life = self.life
        log = life.leader.log
        states = {each.id: each.state for each in life.remote.segments()}
        keys = [object_key(each.metadata, MANIFEST_SUFFIX) for each in life.stored.values()]
        manifests = [
            decode_manifest(self.bucket.objects[key]) for key in keys if key in self.bucket.objects
        ]
        stored = [
            each.metadata
            for each in manifests
            if states.get(each.metadata.id) in (None, STATE.COPY_SEGMENT_STARTED)
        ]
        entries = log.leader_epochs.entries
        for segment in segments_in_gaps(stored, life.remote, entries, bounds_of(log)):
            if states.get(segment.id) is None:
                life.remote.apply_copy_started(segment)
            self._update(segment, STATE.COPY_SEGMENT_FINISHED)
            self.counts["gap repaired"] += 1

    def recreate(self) -> None:
        """The topic is deleted and made again; its objects go later."""
        self.dying.append(self.life)
        self.life = self._new_life()
        self.counts["recreated"] += 1

    def remove_dying(self) -> None:
        """Some objects of deleted incarnations go."""
        for life in self.dying:
            folder = partition_prefix(life.partition)
            keys = sorted(
                (key for key in self.bucket.objects if key.startswith(folder)),
                key=lambda each: not each.endswith(MANIFEST_SUFFIX),
            )
            self._remove(keys[: self.chance.randrange(len(keys) + 4)])


def _event(segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadataUpdate:
    """What brings a segment from COPY_SEGMENT_STARTED to its state, or close to it."""
    return RemoteLogSegmentMetadataUpdate(
        segment_id=segment.segment_id,
        event_timestamp_ms=segment.event_timestamp_ms,
        state=segment.state,
        broker_id=segment.broker_id,
    )
