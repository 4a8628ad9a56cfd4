"""HTTP as the status endpoints speak it: a request's head, which requests are refused, a response.

A web page could point its own host name at this address (DNS rebinding), or have a visitor's
browser send requests here. Therefore the `Host` of a request must be an IP address, localhost, or a
host name from the broker's configuration (else 421), and a browser that sends the request for
another site is refused (403), unless a person follows a link: then the browser says that it
navigates to a document. Only GET and HEAD are served, and no request changes anything.

Every response forbids the browser to load, run or embed anything from elsewhere, and lets no other
site read it. Pure: no socket, no clock.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import unquote

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    f"Content-Security-Policy: {_POLICY}\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-cache\r\n"
    "Connection: close\r\n"
)
_STATUS = {
    200: "OK",
    304: "Not Modified",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_OTHER_SITES = frozenset({"cross-site", "same-site"})


class Request(NamedTuple):
    """The head of a request."""

    method: str
    path: str
    """As sent, without the query."""
    query: str
    headers: Mapping[str, tuple[str, ...]]
    """Every value of each field, by its name in lower case."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path between slashes, decoded."""
        return tuple(unquote(part) for part in self.path.split("/")[1:])

    def value(self, name: str) -> str:
        """The first value of a field, or ""."""
        values = self.headers.get(name)
        return values[0] if values else ""


class Response(NamedTuple):
    """An answer; `etag` names this body among others at the same address, "" if nothing does."""

    status: int
    body: bytes
    content_type: str = PLAIN
    etag: str = ""


def plain(status: int, message: str) -> Response:
    """A response with one line of text."""
    return Response(status, f"{message}\n".encode())


def parse_request(head: bytes) -> Request | None:
    """A request's head, without the empty line at its end; None if it is not one of HTTP/1."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    headers: dict[str, tuple[str, ...]] = {}
    for line in lines:
        field, _, value = line.partition(":")
        name = field.strip().lower()
        headers[name] = (*headers.get(name, ()), value.strip())
    path, _, query = words[1].partition("?")
    return Request(words[0], path, query, headers)


def refusal(request: Request | None, names: Collection[str] = ()) -> Response | None:
    """Why the request is not answered; None if it may be. `names` are the broker's host names."""
    if request is None:
        return plain(400, "This is not an HTTP request.")
    if not all(_is_own_name(host, names) for host in request.headers.get("host", ())):
        return plain(
            421,
            "The Host header of this request is not a name of this broker: use its IP address, "
            "or a name in listeners, advertised.listeners, tierlog.status.host or "
            "tierlog.metrics.host.",
        )
    if _is_for_another_site(request):
        return plain(403, "A browser sent this request for another site.")
    if request.method not in ("GET", "HEAD"):
        return plain(405, "Only GET and HEAD are allowed.")
    return None


def _is_own_name(host: str, names: Collection[str]) -> bool:
    text = host.lower()
    bare = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    return bare in ("localhost", "127.0.0.1", *names) or _is_address(bare)


def _is_address(host: str) -> bool:
    import ipaddress  # most requests need not load it

    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_for_another_site(request: Request) -> bool:
    if _OTHER_SITES.isdisjoint(request.headers.get("sec-fetch-site", ())):
        return False
    follows_link = request.value("sec-fetch-mode") == "navigate"
    return not (follows_link and request.value("sec-fetch-dest") == "document")


def encode_response(response: Response, request: Request | None) -> tuple[bytes, ...]:
    """What to send: no body for HEAD, nor where the client has the body already (304)."""
    status, body, content_type, etag = response
    tag = f'ETag: "{etag}"\r\n' if etag else ""
    if status == 200 and request is not None and _has_body_already(request, etag):
        return (f"HTTP/1.1 304 {_STATUS[304]}\r\n{tag}{_HEADERS}\r\n".encode(),)
    allow = "Allow: GET, HEAD\r\n" if status == 405 else ""
    head = (
        f"HTTP/1.1 {status} {_STATUS[status]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{tag}{allow}{_HEADERS}\r\n"
    ).encode()
    return (head,) if request is not None and request.method == "HEAD" else (head, body)


def _has_body_already(request: Request, etag: str) -> bool:
    if not etag:
        return False
    tags = request.value("if-none-match").split(",")
    return any(tag.strip().removeprefix("W/") in ("*", f'"{etag}"') for tag in tags)
