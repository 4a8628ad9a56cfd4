"""A client of a schema registry with Confluent's HTTP API, for the driver.

A registry is believed nothing: each answer has a deadline and a bound on its size, a redirect is
not followed, and its values are checked where they are used. The password is in no message.

The paths and the error codes are those of Confluent's API, which Apicurio and others offer too:
https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

import base64
import socket
import ssl
import threading
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urlsplit

from .registered_schema import SchemaError, id_of, list_of, object_of, parsed_json

MAX_ANSWER_BYTES = 4 << 20
TIMEOUT_S = 10.0
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """Where a schema registry is, and how to log in."""

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        ca_file: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """A registry at an http or https URL; nothing is asked of it yet.

        Args:
            url: the base of its API, without credentials.
            user: `name:password` for HTTP's basic authentication.
            ca_file: PEM file of the authorities that an https registry's certificate may have; by
                default those of the system.
            timeout_s: seconds that connecting, and then one whole answer, may take.

        Raises:
            SchemaError: the URL, the user or the CA file cannot be used.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise SchemaError("The URL of the schema registry is not valid") from None
        if parts.username is not None or parts.password is not None:
            raise SchemaError(
                "The URL of the schema registry holds a user, which logs would show: use the "
                "option user='name:password'"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SchemaError(f"{url!r} is not the http or https URL of a schema registry")
        if parts.query or parts.fragment:
            raise SchemaError("The URL of the schema registry has a query or a fragment")
        if user is not None and ":" not in user:
            raise SchemaError("The user of the schema registry is not of the form name:password")
        self._host, self._port = parts.hostname, port
        self._is_secure = parts.scheme == "https"
        self._root = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self._root}"
        """The base of its API, for messages."""
        self._headers = {"Accept": f"{_MEDIA_TYPE}, application/json"}
        if user is not None:
            login = base64.b64encode(user.encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"
        self._timeout_s = timeout_s
        self._tls = _tls(ca_file) if self._is_secure else None

    def __repr__(self) -> str:
        """The URL alone: the login stays out of logs."""
        return f"SchemaRegistry({self.url!r})"

    def versions(self, subject: str) -> tuple[list[int], int]:
        """All versions of a subject, also deleted ones, and the newest that is not deleted.

        Raises SchemaError if the registry or the subject is not there.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        what = f"A version of subject {subject!r}"
        current = [id_of(each, what) for each in list_of(self._answer(path), "A list of versions")]
        every = list_of(self._answer(f"{path}?deleted=true"), "A list of versions")
        if not current:
            raise SchemaError(f"The schema registry has no version of subject {subject!r}")
        return sorted({*current, *(id_of(each, what) for each in every)}), max(current)

    def version(self, subject: str, version: int) -> dict[str, object]:
        """One version of a subject, also a deleted one, as the registry describes it."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
        return object_of(self._answer(path), f"Version {version} of subject {subject!r}")

    def schema(self, schema_id: int) -> dict[str, object]:
        """The schema of an id, as the registry describes it."""
        return object_of(self._answer(f"/schemas/ids/{schema_id}"), f"Schema {schema_id}")

    def _answer(self, path: str) -> object:
        status, body = self._body(path)
        if status == 200:
            return parsed_json(body, f"The answer of the schema registry at {self.url}")
        what = f"The schema registry at {self.url} answers {path.partition('?')[0]} with {status}"
        if 300 <= status < 400:
            raise SchemaError(f"{what}, a redirect, which is not followed: use the URL it leads to")
        if status in (401, 403):
            raise SchemaError(f"{what}: check the option user")
        raise SchemaError(f"{what}{_stated_message(body)}")

    def _body(self, path: str) -> tuple[int, bytes]:
        try:
            with closing(self._connection()) as connection:
                status, body = self._exchange(connection, path)
        except (OSError, HTTPException, ValueError) as error:
            # A ValueError is a host that is none, or the length of a chunk that is negative.
            reason = " ".join(str(error).split()) or type(error).__name__
            raise SchemaError(
                f"The schema registry at {self.url} cannot be reached: {reason[:200]}"
            ) from None
        if len(body) > MAX_ANSWER_BYTES:
            raise SchemaError(
                f"The schema registry at {self.url} answers with more than {MAX_ANSWER_BYTES} bytes"
            )
        return status, body

    def _exchange(self, connection: HTTPConnection, path: str) -> tuple[int, bytes]:
        connection.connect()
        is_late = threading.Event()
        # The timeout of the socket is for one read only: bytes may drip in for ever. The connection
        # forgets its socket when an answer says that it ends with the connection.
        deadline = threading.Timer(self._timeout_s, _shut, (connection.sock, is_late))
        deadline.daemon = True
        deadline.start()
        try:
            connection.request("GET", self._root + path, headers=self._headers)
            with connection.getresponse() as answer:
                # `read` reads all that comes after a chunk of negative length, this what fits.
                buffer = memoryview(bytearray(MAX_ANSWER_BYTES + 1))
                body = bytes(buffer[: answer.readinto(buffer)])
                if is_late.is_set():
                    raise HTTPException(f"no whole answer within {self._timeout_s:g} s")
                if answer.length and len(body) <= MAX_ANSWER_BYTES:
                    raise HTTPException("the answer ends too early")
                return answer.status, body
        finally:
            deadline.cancel()

    def _connection(self) -> HTTPConnection:
        if self._tls is None:
            return HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        return HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=self._tls)


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise SchemaError(f"The CA file {ca_file!r} cannot be used: {error}") from None


def _shut(opened: socket.socket, is_late: threading.Event) -> None:
    """End an answer that is late: the reader then finds its end."""
    is_late.set()
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)


def _stated_message(body: bytes) -> str:
    """The message of an error, on one line and cut; nothing if the body is something else."""
    try:
        stated = object_of(parsed_json(body, "It"), "It").get("message")
    except SchemaError:
        return ""
    return f": {' '.join(stated.split())[:200]}" if isinstance(stated, str) else ""
