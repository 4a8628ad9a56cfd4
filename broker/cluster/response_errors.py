"""The errors in a response, whichever of its fields they are in (`AbstractResponse.errorCounts`).

Some responses have one error for all of a request, others one for each item of it.
"""

from collections.abc import Iterator
from typing import cast

from ...clients.protocol.schema import Struct

_ERROR_CODE = "error_code"
_DEPTH_MAX = 8


def error_codes(response: Struct, depth: int = 0) -> Iterator[int]:
    """All error codes in a response: its own, and those of the structs in its lists."""
    assert depth < _DEPTH_MAX, "No response is nested that deeply."
    for name in response.__declared__:
        value = getattr(response, name)
        if name == _ERROR_CODE:
            yield value
        elif isinstance(value, list):
            for each in cast("list[object]", value):
                if not isinstance(each, Struct):
                    break
                yield from error_codes(each, depth + 1)
