"""What a handler is, and what it may return (`apis.py` tells the meaning)."""

from collections.abc import Callable, Coroutine, Generator

from ...clients.protocol.schema import Message
from ..request.context import BrokerContext, Deferred, RequestContext

Outcome = Message | None | Deferred[object] | Coroutine[object, object, Message | None]
HandlerResult = Outcome | Generator[None, None, Outcome]
Handler = Callable[[BrokerContext, RequestContext, Message], HandlerResult]
