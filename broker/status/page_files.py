"""The files of the status page, out of the package `broker/status/page/`.

Only the names below are served, whatever else lies there, so no path of a request reaches the disk.
A file is read once; that blocks for as long as a few tens of kilobytes take.
"""

import hashlib
import os

from ...storage.files import Files, OsFiles
from ..network.http_message import HTML, Response, plain

_FOLDER = os.path.join(os.path.dirname(__file__), "page")

FILES = {
    "/": ("index.html", HTML),
    "/status.js": ("status.js", "text/javascript; charset=utf-8"),
    "/status.css": ("status.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""The file and the content type of each address."""


class PageFiles:
    """Serves the page's files."""

    def __init__(self, folder: str = _FOLDER, files: Files | None = None) -> None:
        self._folder = folder
        self._files = files or OsFiles()
        self._responses: dict[str, Response] = {}

    def answer(self, path: str) -> Response:
        """The file at this address, or 404."""
        response = self._responses.get(path)
        if response is not None:
            return response
        if path not in FILES:
            return plain(404, "There is no such address: see docs/status-page.md.")
        name, content_type = FILES[path]
        try:
            content = self._files.read(f"{self._folder}/{name}")
        except FileNotFoundError:
            return plain(404, f"This installation has no {name}.")
        etag = hashlib.blake2b(content, digest_size=12).hexdigest()
        response = self._responses[path] = Response(200, content, content_type, etag)
        return response
