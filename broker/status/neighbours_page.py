"""Whether a port that is in use is the status page of another tierlog.

The dev broker serves its page at the port after its own, which is where a user may want the next
broker to listen. They would look for a process that they do not know.
"""

import errno
from collections.abc import Sequence

from ...clients.network.http_document import GetError, HttpDocument
from ..network.socket_listener import Endpoint

_WITHIN_S = 1.0
_SIGN = b"<title>tierlog"
"""How the page begins, in any version."""


async def neighbours_page(error: OSError, endpoints: Sequence[Endpoint]) -> str:
    """The URL of the first page that is found where nobody can listen; empty if there is none."""
    if error.errno != errno.EADDRINUSE:
        return ""
    for endpoint in endpoints:
        if endpoint.port:
            here = endpoint._replace(host=_reached_at(endpoint.host))
            url = f"http://{here.address}"
            if await _is_page(url):
                return url
    return ""


def _reached_at(host: str) -> str:
    """Where one's own machine is reached, if one listens at all its addresses."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


async def _is_page(url: str) -> bool:
    try:
        return _SIGN in await HttpDocument(f"{url}/").get(_WITHIN_S)
    except GetError:
        return False
