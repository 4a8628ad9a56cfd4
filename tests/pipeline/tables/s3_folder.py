"""A folder as a bucket of S3, to be read: it lists, gives ranges, and counts the bytes it gives."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

BUCKET = "tier"


class S3Folder:
    """Serves the folder on a port of 127.0.0.1, in this process. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bytes_of_logs = 0
        """What was given of `.log` objects."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, name="s3-folder")

    @property
    def storage_options(self) -> dict[str, str]:
        port = self._server.server_address[1]
        return {"endpoint_url": f"http://127.0.0.1:{port}", "key": "a", "secret": "b"}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def listing(self, prefix: str) -> bytes:
        """ListObjectsV2 of everything below the prefix."""
        paths = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        sizes = {path.relative_to(self.folder).as_posix(): path.stat().st_size for path in paths}
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size><ETag>e</ETag>"
            "<LastModified>2026-11-26T00:00:00.000Z</LastModified></Contents>"
            for key, size in sizes.items()
            if key.startswith(prefix)
        )
        return (
            "<ListBucketResult><IsTruncated>false</IsTruncated>" + entries + "</ListBucketResult>"
        ).encode()

    def content(self, key: str, byte_range: str | None) -> bytes | None:
        """An object's bytes, or those of a range `bytes=first-last`."""
        path = self.folder / key
        if not path.is_file():
            return None
        content = path.read_bytes()
        if byte_range is not None:
            first, _, last = byte_range.removeprefix("bytes=").partition("-")
            content = content[int(first) : int(last) + 1 if last else None]
        if key.endswith(".log"):
            self.bytes_of_logs += len(content)
        return content


def _handler_of(folder: S3Folder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            key = address.path.removeprefix(f"/{BUCKET}").strip("/")
            if not key:
                prefix = parse_qs(address.query).get("prefix", [""])[0]
                self._answer(200, folder.listing(prefix))
                return
            content = folder.content(key, self.headers["Range"])
            if content is None:
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            else:
                self._answer(206 if "Range" in self.headers else 200, content)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
