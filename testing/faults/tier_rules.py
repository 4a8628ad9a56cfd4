"""Which faults an operation of the tier meets: a table of rules, and the decision for one.

Delays add up, and the first failure counts. A rule that was met as often as it may be is gone.
This is a core, as `fault_rules.py` is for requests.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ...clients.topic_partition import TopicPartition
from ...tiering.remote_storage import Failure
from .fault_rules import RULES_MAX


class TierAct(Enum):
    """What a broker does with a tier."""

    COPY = "copy"
    """A segment is copied."""
    READ = "read"
    """Records are read, or an index that leads to them."""
    DELETE = "delete"
    """A segment or a whole partition is deleted."""
    LOOK = "look"
    """The tier's owner or its objects are looked at."""


class TierOperation(NamedTuple):
    """One operation. The offsets are those of a segment, both inclusive; None for other things."""

    act: TierAct
    partition: TopicPartition | None = None
    start_offset: int | None = None
    end_offset: int | None = None

    def is_of(self, partition: TopicPartition, offset: int) -> bool:
        """Whether its segment has this offset."""
        return (
            self.partition == partition
            and self.start_offset is not None
            and self.end_offset is not None
            and self.start_offset <= offset <= self.end_offset
        )


@dataclass(slots=True, eq=False)
class TierRule:
    """One fault: which operations meet it, and what it does to them."""

    acts: frozenset[TierAct]
    failure: Failure | None = None
    seconds: float = 0.0
    missing: tuple[TopicPartition, int] | None = None
    """Only operations on the segment that has this offset."""
    left: int | None = None
    """How many operations it still waits for; None if it never ends by itself."""
    met: int = 0
    """How many operations have met it."""


class TierDecision(NamedTuple):
    """What to do with one operation: the seconds before it, and then how it fails, if it does."""

    delay_s: float = 0.0
    failure: Failure | None = None


class TierRules:
    """The rules that hold now."""

    def __init__(self) -> None:
        self._rules: list[TierRule] = []

    def add(self, rule: TierRule) -> None:
        """Let operations meet this rule from now on. Raises ValueError above RULES_MAX."""
        if len(self._rules) >= RULES_MAX:
            raise ValueError(f"The tier has {RULES_MAX} faults already: end some of them.")
        self._rules.append(rule)

    def remove(self, rule: TierRule) -> None:
        """Let no operation meet this rule any more. Idempotent."""
        if rule in self._rules:
            self._rules.remove(rule)

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def decide(self, operation: TierOperation) -> TierDecision:
        """What to do with an operation; counts it for the rules that it meets."""
        delay_s = 0.0
        failure: Failure | None = None
        for rule in list(self._rules):
            is_second = rule.failure is not None and failure is not None
            if is_second or operation.act not in rule.acts:
                continue
            if rule.missing is not None and not operation.is_of(*rule.missing):
                continue
            delay_s += rule.seconds
            failure = failure or rule.failure
            rule.met += 1
            if rule.left is not None:
                rule.left -= 1
                if not rule.left:
                    self._rules.remove(rule)
        return TierDecision(delay_s, failure)
