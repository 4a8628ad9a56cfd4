"""Which faults a request meets: a table of rules, and the decision for one request.

Rules are looked at in the order in which they were added. Delays add up, the longest throttle time
counts, and of the faults that replace the answer (`ENDINGS`) the first one does. A rule that was
met as often as it may be is gone.

This is a core: no loop, no clock. `request_faults.py` is what users hold, `faulty_answers.py` acts.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.protocol.api import ApiKey

RULES_MAX = 1_000
"""The most rules at a time: each request is compared with all of them."""

Topics = Callable[[], "Collection[str] | None"]
"""Returns the topics that a request names; None if it means all."""


class FaultKind(Enum):
    """What happens to a request."""

    FAIL = "fail"
    """It is not handled; its answer has an error."""
    DELAY = "delay"
    """It is handled later."""
    DROP_BEFORE = "drop before"
    """It is not handled, and its connection is closed."""
    DROP_AFTER = "drop after"
    """It is handled, and its connection is closed instead of being answered."""
    SILENCE = "silence"
    """It is not handled, and its connection not read, until the fault ends."""
    THROTTLE = "throttle"
    """Its answer has a throttle time, and its connection is not read meanwhile."""


ENDINGS = frozenset(
    {FaultKind.FAIL, FaultKind.DROP_BEFORE, FaultKind.DROP_AFTER, FaultKind.SILENCE}
)
"""The kinds that replace the answer."""


@dataclass(slots=True, eq=False)
class Rule:
    """One fault: which requests meet it, and what it does to them."""

    kind: FaultKind
    api_key: ApiKey
    topic: str | None = None
    """Only requests that name this topic."""
    error: ErrorCode = ErrorCode.NONE
    seconds: float = 0.0
    left: int | None = None
    """How many requests it still waits for; None if it never ends by itself."""
    met: int = 0
    """How many requests have met it."""


class Decision(NamedTuple):
    """What to do with one request."""

    met: tuple[Rule, ...] = ()
    delay_s: float = 0.0
    throttle_s: float = 0.0
    ending: Rule | None = None
    """The rule that replaces the answer."""


NO_FAULT = Decision()


class FaultRules:
    """The rules that hold now."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def __len__(self) -> int:
        return len(self._rules)

    def add(self, rule: Rule) -> None:
        """Let requests meet this rule from now on. Raises ValueError above RULES_MAX."""
        if len(self._rules) >= RULES_MAX:
            raise ValueError(f"There are {RULES_MAX} faults already: end some of them.")
        self._rules.append(rule)

    def remove(self, rule: Rule) -> None:
        """Let no request meet this rule any more. Idempotent."""
        if rule in self._rules:
            self._rules.remove(rule)

    def decide(self, api_key: int, topics: Topics) -> Decision:
        """What to do with a request; counts it for the rules that it meets."""
        met: list[Rule] = []
        ending: Rule | None = None
        for rule in self._rules:
            if rule.api_key != api_key or (ending is not None and rule.kind in ENDINGS):
                continue
            if rule.topic is not None:
                named = topics()
                if named is not None and rule.topic not in named:
                    continue
            met.append(rule)
            if rule.kind in ENDINGS:
                ending = rule
        if not met:
            return NO_FAULT
        for rule in met:
            self._count(rule)
        return Decision(
            tuple(met),
            sum(rule.seconds for rule in met if rule.kind is FaultKind.DELAY),
            max((rule.seconds for rule in met if rule.kind is FaultKind.THROTTLE), default=0.0),
            ending,
        )

    def _count(self, rule: Rule) -> None:
        rule.met += 1
        if rule.left is not None:
            rule.left -= 1
            if not rule.left:
                self._rules.remove(rule)
