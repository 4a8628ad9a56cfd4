"""Asks a broker's status page as a browser or a script does."""

import http.client
import json
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

Json = dict[str, Any]


class Answer(NamedTuple):
    """A response: the status, the fields of its head, the body."""

    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        return cast("Json", json.loads(self.body))


class StatusClient:
    """One connection a request, as the endpoint wants it."""

    def __init__(self, url: str) -> None:
        """`url`: the one of the ready line."""
        self._address = urlsplit(url).netloc

    def ask(self, path: str, fields: dict[str, str] | None = None, method: str = "GET") -> Answer:
        """Whatever is answered."""
        connection = http.client.HTTPConnection(self._address, timeout=30)
        try:
            connection.request(method, path, headers=fields or {})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, name: str) -> Json:
        """What the API says at `/api/v1/<name>`; AssertionError if it is no answer."""
        answer = self.ask(f"/api/v1/{name}")
        assert answer.status == 200, answer
        return answer.json
