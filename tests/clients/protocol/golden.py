"""Frames of real clients and of a real Kafka, kept as annotated hex in `tests/golden/protocol`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tierlog.clients.protocol.api import APIS

FOLDER = Path(__file__).parents[2] / "golden" / "protocol"
ROW = 16


@dataclass(frozen=True, slots=True)
class Golden:
    """One frame without its size: header and body of a request or response."""

    api_key: int
    version: int
    is_request: bool
    client: str
    frame: bytes

    @property
    def name(self) -> str:
        direction = "request" if self.is_request else "response"
        api = APIS[self.api_key].key.name.lower()
        return f"{api}-v{self.version:02}-{direction}-{self.client}"

    def write(self) -> None:
        api = APIS[self.api_key]
        what = (
            f"{api.name} request, version {self.version}, sent by {self.client}"
            if self.is_request
            else f"What Apache Kafka 4.3.1 answered to {api.name}, version {self.version}"
        )
        lines = [f"# {what}. Header and body, without the size.\n"]
        for start in range(0, len(self.frame), ROW):
            row = self.frame[start : start + ROW]
            text = "".join(chr(byte) if 0x20 < byte < 0x7F else "." for byte in row)
            lines.append(f"{start:04x}  {row.hex(' '):<{ROW * 3}} {text}\n")
        (FOLDER / f"{self.name}.hex").write_text("".join(lines))

    @classmethod
    def read(cls, path: Path) -> Self:
        rows = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        frame = b"".join(bytes.fromhex(row[6 : 6 + ROW * 3]) for row in rows)
        api, version, direction, client = path.stem.split("-", 3)
        (key,) = (key for key, served in APIS.items() if served.key.name.lower() == api)
        return cls(key, int(version[1:]), direction == "request", client, frame)


def all_goldens() -> list[Golden]:
    return [Golden.read(path) for path in sorted(FOLDER.glob("*.hex"))]
