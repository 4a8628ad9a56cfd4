"""Secrets that a test plants, and the search for them in what a broker says."""

import base64
import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import quote

_PIECE = 10
"""Characters of a secret that are a leak already: whoever cuts a text leaves its beginning."""


class PlantedSecrets:
    """Secrets by name; each is distinct, and looks like nothing else."""

    def __init__(self) -> None:
        self._pieces: dict[str, set[bytes]] = {}

    def __len__(self) -> int:
        return len(self._pieces)

    def text(self, name: str) -> str:
        """A new password. It begins with a letter and is one word of JAAS."""
        value = "Z" + hashlib.sha256(name.encode()).hexdigest()[:23]
        self.add(name, value)
        return value

    def salted(self, name: str) -> bytes:
        """The 32 bytes of a new salted password."""
        value = hashlib.sha256(name.encode()).digest()
        self._plant(name, {value, value.hex().encode(), base64.b64encode(value)})
        return value

    def key(self, name: str, pem: str) -> str:
        """A private key of P-256 in PKCS#8: what is secret of it, on either side of a line's end.

        Bytes 36 to 67 are the number; the public point follows, which certificates have too.
        """
        text = pem.partition("PRIVATE KEY-----")[2].partition("-----END")[0]
        body = "".join(text.split()).encode()
        assert 180 <= len(body) <= 400, "This is no key of P-256."
        self._plant(name, {body[50:64], body[64:84]})
        return pem

    def add(self, name: str, value: str) -> None:
        """A secret that was made elsewhere."""
        raw = value.encode()
        pieces = {raw[:_PIECE], raw[5 : 5 + _PIECE], raw[-_PIECE:]}
        # Three alignments of base64, each without the ends that depend on the neighbours.
        pieces |= {base64.b64encode(b"\0" * n + raw)[4:-4][:20] for n in range(3)}
        pieces |= {raw.hex().encode()[: 2 * _PIECE], quote(value, safe="").encode()}
        self._plant(name, pieces)

    def _plant(self, name: str, pieces: set[bytes]) -> None:
        assert name not in self._pieces, f"{name} is planted already"
        assert all(len(each) >= _PIECE for each in pieces)
        self._pieces[name] = pieces

    def leaks(self, places: Mapping[str, bytes], but: Collection[tuple[str, str]] = ()) -> set[str]:
        """Each secret with the place that holds it, but those that have to."""
        return {
            f"{name} in {place}"
            for place, content in places.items()
            for name, pieces in self._pieces.items()
            if (name, place) not in but and any(each in content for each in pieces)
        }


def process_list() -> dict[str, bytes]:
    """The arguments of all processes."""
    return {
        f"/proc/{pid}/cmdline": _content(Path(f"/proc/{pid}/cmdline"))
        for pid in os.listdir("/proc")
        if pid.isdigit()
    }


def environments(pid: int) -> dict[str, bytes]:
    """The environment of a process and of all that it has started."""
    found = {f"environment of {pid}": _content(Path(f"/proc/{pid}/environ"))}
    for each in Path(f"/proc/{pid}/task").iterdir():
        for child in _content(each / "children").decode().split():
            found |= environments(int(child))
    return found


def files_below(directory: Path) -> dict[str, bytes]:
    """The content of all files, by their paths."""
    return {
        str(each.relative_to(directory)): each.read_bytes()
        for each in directory.rglob("*")
        if each.is_file()
    }


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        # It has ended, or it is another user's.
        return b""
