"""Writes a line of audit for each administrative act, where it is decided.

    User:alice from 127.0.0.1: DeleteTopics topics=[name=orders]: done

The logger is `tierlog.audit`, apart from that of denials: a flood of either leaves the other its
lines. An act that was denied as a whole has the authorizer's line and no other, and a request that
only validates is none.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from typing import TypeVar, cast

from ...clients.errors import ErrorCode
from ...clients.protocol.api import APIS, ApiKey
from ...clients.protocol.schema import Message
from ...replication.metadata.cluster_image import ConfigResourceType
from ...security.acts import ACTS, DENIALS, act_text, outcome_text
from ...security.audit import ACTS_AUDIT, escape
from ..cluster.response_errors import error_codes
from .active_controller import is_decided_here
from .context import Deferred, NodeContext, RequestContext

N = TypeVar("N", bound=NodeContext)
_Answered = Callable[[object], None]
_CONFIGS = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)


def with_audit(
    key: int, handle: Callable[[N, RequestContext, Message], object]
) -> Callable[[N, RequestContext, Message], object]:
    """The handler with its lines; the handler itself if its API is no administrative act."""
    if key not in ACTS:
        return handle

    def recording(node: N, context: RequestContext, request: Message) -> object:
        if not ACTS_AUDIT.wants(False) or not _is_act(node, context, request):
            return handle(node, context, request)
        # Made before: who answers may change the request.
        act = act_text(key, request)

        def answered(response: object) -> None:
            _record(context, act, response)

        return _observe(handle(node, context, request), answered)

    return recording


def _is_act(node: NodeContext, context: RequestContext, request: Message) -> bool:
    if getattr(request, "validate_only", False):
        return False
    if context.api_key not in _CONFIGS or is_decided_here(node, context):
        return True
    # The active controller has the line, but the levels of loggers are this broker's alone.
    resources = cast("list[object]", getattr(request, "resources", []))
    return any(
        getattr(resource, "resource_type", 0) == ConfigResourceType.BROKER_LOGGER
        for resource in resources
    )


def _observe(result: object, answered: _Answered) -> object:
    """The result of a handler, whose response `answered` gets as soon as there is one."""
    if isinstance(result, Generator):
        return _in_steps(cast("Generator[None, None, object]", result), answered)
    if isinstance(result, Coroutine):
        return _later(cast("Coroutine[object, object, object]", result), answered)
    if isinstance(result, Deferred):
        deferred = cast("Deferred[object]", result)

        def then(done: object) -> Message | None:
            response = deferred.then(done)
            answered(response)
            return response

        return deferred._replace(then=then)
    answered(result)
    return result


def _in_steps(
    work: Generator[None, None, object], answered: _Answered
) -> Generator[None, None, object]:
    result = yield from work
    return _observe(result, answered)


async def _later(work: Coroutine[object, object, object], answered: _Answered) -> object:
    response = await work
    answered(response)
    return response


def _record(context: RequestContext, act: str, response: object) -> None:
    codes = Counter(error_codes(response)) if isinstance(response, Message) else Counter[int]()
    if (codes and set(codes) <= DENIALS) or ErrorCode.NOT_CONTROLLER in codes:
        return
    ACTS_AUDIT.write(
        False,
        f"{escape(context.principal)} from {escape(context.client_host)}:"
        f" {APIS[ApiKey(context.api_key)].name} {act}: {outcome_text(codes)}",
        context.principal,
    )
