"""Rules of a whole cluster, each broken once: the stories must find every one of them.

A bug is planted by replacing a small part of the production code by its name. These are of leaders,
followers and logs; the two neighbours have those of coordinators, of the tier and of controllers.
"""

import re
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.replication.follower.fetch_state import FollowedPartition
from tierlog.replication.follower.follower_asks import Ask, Fetched
from tierlog.replication.follower.replica_fetch_session import ReplicaFetchSession
from tierlog.replication.leader.log_reader import LogReader
from tierlog.replication.metadata.cluster_image import BrokerImage, PartitionImage
from tierlog.replication.metadata.replica_epoch import ReplicaEpoch
from tierlog.replication.partition import high_watermark, isr, partition
from tierlog.replication.partition.fetch_data import FetchPartition
from tierlog.replication.partition.high_watermark import IsrView
from tierlog.replication.partition.isr import IsrState
from tierlog.replication.partition.partition import Partition
from tierlog.replication.partition.replica import Replica
from tierlog.storage.log import unified_log
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.log.leader_epoch import LeaderEpochCache
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.producer.producer_state import ProducerStateManager

from .cluster_planted_controller_bugs import CONTROLLER_BUGS
from .cluster_planted_coordinator_bugs import COORDINATOR_BUGS
from .cluster_planted_tier_bugs import TIER_BUGS
from .cluster_story import ClusterStory, Plan, plan_of

Plant = Callable[[pytest.MonkeyPatch], None]
Loose: TypeAlias = Any
"""What the patched function gets or gives, which is handed on."""


class Found(NamedTuple):
    """The first story that found a bug, and what it said."""

    seed: int
    error: BaseException


_MISFIT = re.compile("TypeError: [^\\n]* (argument|takes|missing)|(Attribute|Name)Error: ")
"""Complaints about a bug that is not planted well: its code has another signature by now."""


def is_about(name: str, plan: Plan) -> bool:
    """Whether a story has what the bug is about."""
    return plan.has_tier or name not in TIER_BUGS


def find(name: str, seeds: Iterable[int]) -> Found | None:
    """Tell stories over a broken cluster until one of them complains.

    Raises AssertionError if the planted bug itself does not fit the code that it replaces.
    """
    with pytest.MonkeyPatch.context() as patch:
        CLUSTER_BUGS[name](patch)
        for seed in seeds:
            plan = plan_of(seed)
            if not is_about(name, plan):
                continue
            try:
                ClusterStory(plan).run()
            except Exception as error:
                text = "".join(traceback.format_exception(error))
                misfit = _MISFIT.search(text)
                assert misfit is None, f"{name} does not fit the code any more: {text}"
                return Found(seed, error)
    return None


# A part that nothing but the production code itself may use, to break it.
_private: Callable[[object, str], Loose] = getattr


def _yes(*_: object, **__: object) -> bool:
    return True


def _one(*_: object) -> int:
    return 1


def _no_error(*_: object) -> ErrorCode:
    return ErrorCode.NONE


def _nothing(*_: object, **__: object) -> None:
    return None


def moves_the_high_watermark_over_the_shrunk_isr(patch: pytest.MonkeyPatch) -> None:
    """Who is to leave the ISR does not hold back the high watermark any more."""
    original = isr.shrinking

    def shrinking(state: IsrState, leaving: Iterable[int]) -> IsrState:
        after = original(state, leaving)
        return after._replace(isr=after.requested_isr, maximal_isr=after.requested_isr)

    patch.setattr(partition, "shrinking", shrinking)
    patch.setattr(partition, "effective_min_isr", _one)


def counts_the_committed_isr(patch: pytest.MonkeyPatch) -> None:
    """Who is to join the ISR does not hold back the high watermark, and nobody outside does."""
    original = isr.expanding

    def expanding(state: IsrState, broker_id: int) -> IsrState:
        return original(state, broker_id)._replace(maximal_isr=state.isr)

    def next_high_watermark(
        current: int, end: int, followers: Iterable[Replica], view: IsrView, now_ms: int
    ) -> int:
        members = [each for each in followers if each.broker_id in view.maximal_isr]
        return high_watermark.next_high_watermark(current, end, members, view, now_ms)

    patch.setattr(partition, "expanding", expanding)
    patch.setattr(partition, "next_high_watermark", next_high_watermark)


def moves_the_high_watermark_alone(patch: pytest.MonkeyPatch) -> None:
    """The leader's own log counts, and no follower's."""

    def next_high_watermark(current: int, end: int, *_: object) -> int:
        return max(current, end)

    patch.setattr(partition, "next_high_watermark", next_high_watermark)


def answers_before_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered when the leader has the records."""
    patch.setattr(Partition, "check_replicated", _no_error)


def checks_no_min_isr(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered however few are in sync."""
    patch.setattr(partition, "effective_min_isr", _one)


def takes_who_is_behind_into_the_isr(patch: pytest.MonkeyPatch) -> None:
    """A follower joins the ISR before it has reached the high watermark."""
    patch.setattr(partition, "has_reached", _yes)


def forgets_the_restart_of_a_follower(patch: pytest.MonkeyPatch) -> None:
    """A follower joins the ISR by a fetch of a former life (KIP-903)."""

    def is_eligible(broker: BrokerImage | None, _: int | None) -> bool:
        return broker is not None and broker.is_active

    original = _private(Partition, "update_follower")

    def update_follower(
        self: Partition, replica: ReplicaEpoch, *rest: Loose, **more: Loose
    ) -> bool:
        moved: bool = original(self, replica._replace(broker_epoch=-1), *rest, **more)
        return moved

    patch.setattr(partition, "is_eligible", is_eligible)
    patch.setattr(Partition, "update_follower", update_follower)


def keeps_what_followers_had_in_former_terms(patch: pytest.MonkeyPatch) -> None:
    """A new leader believes that all followers have its whole log."""
    original = _private(Replica, "on_term")

    def on_term(self: Replica, end: int, now_ms: int, **rest: Loose) -> None:
        original(self, end, now_ms, **rest)
        self.log_end_offset = end

    patch.setattr(Replica, "on_term", on_term)


def takes_its_end_for_committed(patch: pytest.MonkeyPatch) -> None:
    """Whoever begins to lead takes its whole log for committed."""
    original = _private(Partition, "update")

    def update(self: Partition, image: PartitionImage, now_ms: int = 0) -> bool:
        is_new: bool = original(self, image, now_ms)
        if is_new:
            self.log.update_high_watermark(self.log.log_end_offset)
        return is_new

    patch.setattr(Partition, "update", update)


def counts_a_diverging_fetch(patch: pytest.MonkeyPatch) -> None:
    """A fetch that only shows where logs diverge counts for what it asks (KAFKA-13141)."""
    original = _private(LogReader, "_read_partition")

    def read(self: LogReader, params: Loose, asked: FetchPartition, *rest: Loose) -> Loose:
        if params.is_from_follower:
            led = self.partition_for(asked)
            follower = ReplicaEpoch(params.replica_id, params.replica_epoch)
            _private(self, "_on_follower_fetch")(led, follower, asked)
        return original(self, params, asked, *rest)

    patch.setattr(LogReader, "_read_partition", read)


def shows_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """Consumers read up to the end of the log."""
    original = _private(UnifiedLog, "read")

    def read(self: UnifiedLog, offset: int, size: int, _: object, *rest: Loose) -> Loose:
        return original(self, offset, size, FetchIsolation.LOG_END, *rest)

    def visible_end(self: UnifiedLog, _: object) -> int:
        return self.log_end_offset

    patch.setattr(UnifiedLog, "read", read)
    patch.setattr(UnifiedLog, "visible_end", visible_end)


def answers_stale_leaders(patch: pytest.MonkeyPatch) -> None:
    """A leader answers whoever asks, whatever leader epoch it follows."""
    original = _private(Partition, "leader_log")

    def leader_log(self: Partition, _: int = -1) -> UnifiedLog:
        log: UnifiedLog = original(self)
        return log

    patch.setattr(Partition, "leader_log", leader_log)


def truncates_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A follower cuts its log at its high watermark, as before KIP-101."""
    original = _private(FollowedPartition, "follow")

    def follow(self: FollowedPartition, leader_epoch: int) -> None:
        if leader_epoch != self.leader_epoch:
            self.log.truncate_to(self.log.high_watermark)
        original(self, leader_epoch)

    patch.setattr(FollowedPartition, "follow", follow)


def sees_no_divergence(patch: pytest.MonkeyPatch) -> None:
    """A leader never says that a follower's log differs from its own."""
    patch.setattr(Partition, "diverging_epoch", _nothing)


def cuts_nothing(patch: pytest.MonkeyPatch) -> None:
    """A follower forgets the epochs that diverge, and keeps their records."""

    def truncate_to(self: UnifiedLog, offset: int) -> None:
        self.leader_epochs.truncate_from_end(offset)

    patch.setattr(UnifiedLog, "truncate_to", truncate_to)


def appends_late_answers(patch: pytest.MonkeyPatch) -> None:
    """An answer counts, whatever was asked since, and by whomever it is led now."""
    original = _private(FollowedPartition, "fetched")

    def fetched(self: FollowedPartition, ask: Ask, answer: Fetched, *times: Loose) -> bool:
        if ask is not self.outstanding and answer.records:
            self.outstanding = ask
        is_used: bool = original(self, ask, answer, *times)
        return is_used

    patch.setattr(FollowedPartition, "fetched", fetched)
    patch.setattr(FollowedPartition, "leave", _nothing)
    patch.setattr(ReplicaFetchSession, "drop", _nothing)


def keeps_epochs_at_truncation(patch: pytest.MonkeyPatch) -> None:
    """The epochs of truncated records stay in the history (KAFKA-10706)."""
    patch.setattr(LeaderEpochCache, "truncate_from_end", _nothing)


def knows_no_epochs(patch: pytest.MonkeyPatch) -> None:
    """No leader epoch gets into the history."""
    patch.setattr(LeaderEpochCache, "assign", _nothing)


def follows_only_once(patch: pytest.MonkeyPatch) -> None:
    """A follower goes on as before when there is another leader epoch."""
    original = _private(FollowedPartition, "follow")

    def follow(self: FollowedPartition, leader_epoch: int) -> None:
        if self.leader_epoch < 0:
            original(self, leader_epoch)

    patch.setattr(FollowedPartition, "follow", follow)


def takes_its_end_for_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A follower's high watermark is what it has fetched."""
    original = _private(FollowedPartition, "_append")

    def append(self: FollowedPartition, answer: Fetched, now_ms: int) -> None:
        original(self, answer, now_ms)
        self.log.update_high_watermark(self.log.log_end_offset)

    patch.setattr(FollowedPartition, "_append", append)


def syncs_nothing(patch: pytest.MonkeyPatch) -> None:
    """log.flush.interval.messages has no effect."""
    patch.setattr(UnifiedLog, "flush", _nothing)


def writes_duplicates(patch: pytest.MonkeyPatch) -> None:
    """A batch that is sent again is written again."""
    patch.setattr(ProducerStateManager, "check", _nothing)


def forgets_producers_as_a_follower(patch: pytest.MonkeyPatch) -> None:
    """Only a leader keeps what producers have written: the next one takes duplicates."""
    original = _private(UnifiedLog, "append_as_follower")

    def append(self: UnifiedLog, records: memoryview, now_ms: int) -> object:
        info = original(self, records, now_ms)
        self.producers.truncate_fully_and_start_at(self.log_end_offset)
        return info

    patch.setattr(UnifiedLog, "append_as_follower", append)


def keeps_producers_at_truncation(patch: pytest.MonkeyPatch) -> None:
    """What producers had written stays known after it was cut off."""
    patch.setattr(unified_log, "reload_producers", _nothing)


_HERE: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        moves_the_high_watermark_over_the_shrunk_isr,
        counts_the_committed_isr,
        moves_the_high_watermark_alone,
        answers_before_the_high_watermark,
        checks_no_min_isr,
        takes_who_is_behind_into_the_isr,
        forgets_the_restart_of_a_follower,
        keeps_what_followers_had_in_former_terms,
        takes_its_end_for_committed,
        counts_a_diverging_fetch,
        shows_what_is_not_committed,
        answers_stale_leaders,
        truncates_to_the_high_watermark,
        sees_no_divergence,
        cuts_nothing,
        appends_late_answers,
        keeps_epochs_at_truncation,
        knows_no_epochs,
        follows_only_once,
        takes_its_end_for_the_high_watermark,
        syncs_nothing,
        writes_duplicates,
        forgets_producers_as_a_follower,
        keeps_producers_at_truncation,
    )
}
CLUSTER_BUGS: dict[str, Plant] = {**_HERE, **CONTROLLER_BUGS, **COORDINATOR_BUGS, **TIER_BUGS}
"""By name."""

UNSEEN: dict[str, str] = {
    "forgets_the_restart_of_a_follower": (
        "a cut must hold back a fetch of a follower that meanwhile loses power and registers again"
    ),
    "answers_stale_leaders": "fetches that are compared by epoch find the divergence all the same",
    "keeps_the_epoch_of_the_last_incarnation": (
        "leaders compare the epochs before they ask; and a restart that shrinks an ISR raises the"
        " partition epoch, so that what was asked before is stale"
    ),
    "takes_stale_isrs": "leaders ask again as soon as the newer ISR reaches them",
    "takes_an_unknown_partition_for_marked": (
        "a partition must move to another leader while its coordinator alone has an old image"
    ),
    "drops_the_guard": (
        "an abort must overtake a verification that is on its way to a coordinator elsewhere"
    ),
    "copies_what_is_not_committed": (
        "a segment must be closed while the high watermark stands still, and copied before it moves"
    ),
    "truncates_before_aux_is_at_hand": (
        "who lags so far must know a high watermark in the same life: a pause, and no kill"
    ),
    "deletes_what_it_has_not_heard_of": "the metadata must be ahead of the image of its leader",
}
"""Those that some forty seeds did not show, and what would have to happen; more seeds may."""
