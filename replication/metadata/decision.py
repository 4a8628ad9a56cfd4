"""What deciding on a change of the cluster's state results in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...clients.protocol.schema import Message

ResultT_co = TypeVar("ResultT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[ResultT_co]):
    """Records to commit, and the answer to send once they are committed."""

    records: Sequence[Message]
    answer: ResultT_co
