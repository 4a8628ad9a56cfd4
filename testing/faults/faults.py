"""The faults of one broker: those of its requests, and those of its tier."""

from dataclasses import replace
from typing import TYPE_CHECKING

from .request_faults import RequestFaults
from .tier_faults import TierFaults

if TYPE_CHECKING:
    from ...broker.dependencies import Dependencies


class Faults(RequestFaults):
    """What a test can do to a broker; without a fault, the broker is as it always is.

    They stay when the broker is started again, until they end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tier = TierFaults()
        """The faults of its tier."""

    def clear(self) -> None:
        """End all faults, those of the tier too."""
        super().clear()
        self.tier.clear()

    def in_place(self, dependencies: "Dependencies | None" = None) -> "Dependencies":
        """The dependencies of a broker that meets these faults."""
        # Loaded where a broker is: a test module that names `Broker` may never start one.
        from ...broker.dependencies import Dependencies
        from .faulty_answers import faulty_answers
        from .faulty_storage import faulty_storage

        return replace(
            dependencies or Dependencies(),
            around_answers=faulty_answers(self),
            around_storage=faulty_storage(self.tier),
        )
