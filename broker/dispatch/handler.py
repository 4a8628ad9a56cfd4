"""What a handler is, and what it may return (`apis.py` says what each means)."""

from collections.abc import Callable, Coroutine, Generator
from typing import NamedTuple

from ...clients.protocol.schema import Message
from ..request.context import BrokerContext, Deferred, RequestContext

Outcome = Message | None | Deferred[object] | Coroutine[object, object, Message | None]
HandlerResult = Outcome | Generator[None, None, Outcome]
Handler = Callable[[BrokerContext, RequestContext, Message], HandlerResult]


class Throttled(NamedTuple):
    """A response, and how long to mute its client after it."""

    response: Message | None
    wait_s: float


Measured = Outcome | Throttled
"""What a handler returns that is called within quotas (`throttling.py`)."""
MeasuredResult = Measured | Generator[None, None, Measured]
