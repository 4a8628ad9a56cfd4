"""Faults of the tier, as a test sets them: out of reach, slow, failing, a segment missing.

    broker.offload("orders")
    with broker.faults.tier.outage():
        ...  # reads of "orders" fail with an error that clients retry
    ...  # and go on

What a broker keeps of the tier in its caches, it reads without the tier, also during a fault.
"""

import threading
from collections import deque

from ...clients.topic_partition import TopicPartition
from ...tiering.remote_storage import Failure
from .fault import Fault
from .names import checked_seconds, checked_times
from .tier_rules import TierAct, TierDecision, TierOperation, TierRule, TierRules

OPERATIONS_KEPT_MAX = 10_000
"""How many operations `TierFaults.operations` has; older ones are forgotten."""

_EVERYTHING = frozenset(TierAct)
_FAILURES = {failure.value: failure for failure in Failure}
_ACTS = {act.value: act for act in TierAct}


class TierFaults:
    """The faults that operations of the tier meet now. Its methods may be called from any thread.

    Setting one raises ValueError while the broker has no tier that could fail: it was made without
    one, its tier is a plug-in, or it has not started yet.
    """

    def __init__(self) -> None:
        self._rules = TierRules()
        self._operations: deque[TierOperation] = deque(maxlen=OPERATIONS_KEPT_MAX)
        self._is_in_place = False
        self._bell = threading.Condition()
        """Guards all of the above, and wakes the threads that wait for a fault to be met."""

    def outage(self) -> Fault:
        """Let every operation fail, as if the tier could not be reached."""
        return self._add(TierRule(_EVERYTHING, Failure.UNREACHABLE), "the tier cannot be reached")

    def slow(self, seconds: float, times: int | None = None) -> Fault:
        """Let every operation begin so much later. Raises ValueError if that is no time."""
        rule = TierRule(_EVERYTHING, seconds=checked_seconds(seconds), left=checked_times(times))
        return self._add(rule, f"the tier takes {seconds:g} s longer")

    def fail(self, act: str, failure: str = "unreachable", times: int | None = None) -> Fault:
        """Let operations of one kind fail.

        `act` is "copy", "read" (of records and indexes), "delete" or "look"; `failure` is "not
        found", "unreachable", "throttled", "denied" or "broken". Raises ValueError for another.
        """
        if act not in _ACTS:
            raise ValueError(f"There is no {act!r} in a tier: it has {', '.join(_ACTS)}.")
        if failure not in _FAILURES:
            raise ValueError(f"No failure is {failure!r}: they are {', '.join(_FAILURES)}.")
        rule = TierRule(frozenset({_ACTS[act]}), _FAILURES[failure], left=checked_times(times))
        return self._add(rule, f"the tier fails to {act}: {failure}")

    def missing(self, topic: str, partition: int, offset: int) -> Fault:
        """Let the segment that has this offset be missing when it is read."""
        rule = TierRule(
            frozenset({TierAct.READ}),
            Failure.NOT_FOUND,
            missing=(TopicPartition(topic, partition), offset),
        )
        return self._add(rule, f"the tier has lost offset {offset} of {topic}-{partition}")

    def clear(self) -> None:
        """End all faults of the tier."""
        with self._bell:
            self._rules.clear()

    @property
    def operations(self) -> list[TierOperation]:
        """What the broker did with the tier, the last OPERATIONS_KEPT_MAX operations."""
        with self._bell:
            return list(self._operations)

    def _add(self, rule: TierRule, sentence: str) -> Fault:
        with self._bell:
            if not self._is_in_place:
                raise ValueError(
                    'There is no tier that could fail: make the broker with tier="memory", or '
                    "with the address of a store, and start it."
                )
            self._rules.add(rule)
        return Fault(sentence, lambda: rule.met, lambda: self._end(rule), self._bell)

    def _end(self, rule: TierRule) -> None:
        with self._bell:
            self._rules.remove(rule)

    # Called on the broker's loop.

    def put_in_place(self) -> None:
        """Say that operations of the tier come by here."""
        with self._bell:
            self._is_in_place = True

    def decide(self, operation: TierOperation) -> TierDecision:
        """What to do with an operation that is about to begin."""
        with self._bell:
            decision = self._rules.decide(operation)
            self._operations.append(operation)
            self._bell.notify_all()
        return decision
