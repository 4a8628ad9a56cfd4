"""What a client may send before it is authenticated, and what it may get for it.

The oracle is written from the protocol's rules (KIP-43, KIP-152), not from the broker's table.
"""

from .sasl_frames import BAD, GOOD, authenticate, handshake, metadata, versions

EVENTS: dict[str, bytes] = {
    "versions": versions(),
    "versions unknown": versions(wire_version=32767),
    "versions unnamed": versions(name=" "),
    "handshake": handshake(),
    "handshake bare": handshake(version=0),
    "handshake disabled": handshake("GSSAPI"),
    "handshake unknown": handshake(wire_version=32767),
    "token": authenticate(),
    "token bad": authenticate(BAD),
    "token unknown": authenticate(wire_version=32767),
    "bare token": GOOD,
    "metadata": metadata(),
}
assert len(EVENTS) == 12
CLOSED = "closed"


class Oracle:
    """What a client may get, by what it has sent so far."""

    def __init__(self) -> None:
        self.said_versions = False
        self.waits_for = "handshake"

    def answer_to(self, event: str) -> str:
        if self.waits_for == "handshake":
            return self._before_handshake(event)
        if self.waits_for == "bare token":
            self.waits_for = "nothing"
            return "bare proof" if event == "bare token" else f"{CLOSED} silently, later"
        self.waits_for = "nothing"
        answers = {
            "token": "proof",
            "token bad": f"{CLOSED} with 58",
            "versions": f"{CLOSED} with 34",
            "versions unknown": f"{CLOSED} with 34",
            "handshake": f"{CLOSED} with 34",
            "handshake bare": f"{CLOSED} with 34",
            "handshake disabled": f"{CLOSED} with 34",
            "versions unnamed": f"{CLOSED} with 34",
            "metadata": f"{CLOSED} with 34",
        }
        return answers.get(event, CLOSED)

    def _before_handshake(self, event: str) -> str:
        if event.startswith("versions") and not self.said_versions:
            self.said_versions = event == "versions"
            return "versions"
        if event in ("handshake", "handshake bare"):
            self.waits_for = "token" if event == "handshake" else "bare token"
            return "mechanisms"
        return f"{CLOSED} with 33" if event == "handshake disabled" else CLOSED
