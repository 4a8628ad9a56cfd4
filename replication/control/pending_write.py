"""A write in the queue of `controller_loop.py`, before and after it is decided."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from ..metadata.cluster_image import ClusterImage
from .controller_config import Decision

if TYPE_CHECKING:
    import asyncio

AnswerT = TypeVar("AnswerT")


class PendingWrite(Generic[AnswerT]):
    """A queued request: its decision function, deadline, and the future of its answer."""

    __slots__ = ("_answer", "_decide", "_decision", "deadline")

    def __init__(
        self,
        decide: Callable[[ClusterImage], Decision[AnswerT]],
        answer: "asyncio.Future[AnswerT]",
        deadline: float,
    ) -> None:
        self._decide = decide
        self._answer = answer
        self._decision: Decision[AnswerT] | None = None
        self.deadline = deadline

    @property
    def is_given_up(self) -> bool:
        return self._answer.done()

    def decide(self, image: ClusterImage) -> Decision[AnswerT]:
        self._decision = self._decide(image)
        return self._decision

    def respond(self) -> None:
        assert self._decision is not None
        if not self._answer.done():
            self._answer.set_result(self._decision.answer)

    def fail(self, error: BaseException) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)
