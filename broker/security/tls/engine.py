"""One connection's TLS without I/O: cipher text in, plain text out, and the other way round.

The engine has no socket and no clock: its owner gives it what has arrived and sends what it has to
say. Reading, too, can give it something to say (answers to key updates, alerts), so its owner looks
at `outgoing` after each call.

    SHAKING --finish--> OPEN
    SHAKING --fail----> FAILED
    OPEN    --end-----> ENDED
    OPEN    --fail----> FAILED
"""

import ssl
from enum import Enum
from typing import Final, cast

FEED_BYTES: Final = 32 * 1024
"""Cipher text is given to OpenSSL in pieces of this size: its buffer grows to the largest piece and
never shrinks, and every connection has one."""

RECORD_BYTES_MAX: Final = 16 * 1024 + 2048 + 5
"""The largest record with its header: as much as may be left of earlier cipher text."""

SILENT_BYTES_MAX: Final = RECORD_BYTES_MAX
"""A peer that sends more than this without data is not let go on. It can only be key updates and
empty records: 256 KiB of them, one read, take OpenSSL 0.3 s, and are answered by as many bytes."""

SILENT_RECORDS_MAX: Final = 256
"""A peer that has sent this many more records than data has come from is not let go on: what is no
data is a handshake's message or a key update, whose 27 bytes take OpenSSL 30 us. One byte of data
between two of them does not make them cheaper."""

BYTES_A_SILENT_RECORD: Final = 1024 * 1024
"""So much data lets a peer send one such record more: connections last."""

_HANDSHAKE_RECORD = 0x16
_HEADER_BYTES = 5


class TlsState(Enum):
    """How far the connection is."""

    SHAKING = "the handshake is not complete"
    OPEN = "data flows"
    ENDED = "the peer has said that it sends no more"
    FAILED = "the peer has broken the protocol, or is not let in"


class TlsEvent(Enum):
    """What can happen to a connection."""

    FINISH = "the handshake is complete"
    END = "the peer's close_notify arrived"
    FAIL = "OpenSSL has reported an error"


TRANSITIONS: dict[tuple[TlsState, TlsEvent], TlsState] = {
    (TlsState.SHAKING, TlsEvent.FINISH): TlsState.OPEN,
    (TlsState.SHAKING, TlsEvent.FAIL): TlsState.FAILED,
    (TlsState.OPEN, TlsEvent.END): TlsState.ENDED,
    (TlsState.OPEN, TlsEvent.FAIL): TlsState.FAILED,
}
"""Every legal transition; any other is a bug."""


class TlsError(Exception):
    """The connection cannot go on; `str(error)` says why, for a log line."""


class NotTlsError(TlsError):
    """The first byte is none of a handshake: it must be answered with nothing.

    A client that expects plain text would read an alert as the size of a response (KAFKA-4090).
    """


class TlsEngine:
    """The server's side of one connection."""

    __slots__ = (
        "_data_bytes",
        "_feed",
        "_header",
        "_incoming",
        "_is_first",
        "_outgoing",
        "_rest",
        "_silent",
        "_silent_records",
        "_tls",
        "state",
    )

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._feed = self._incoming.write
        self._is_first = True
        self._silent = 0
        """How much cipher text has arrived since the last data."""
        self._silent_records = 0
        """How many records have begun, less those that held data."""
        self._data_bytes = 0
        self._rest = 0
        """How many bytes of the last record are still to come."""
        self._header = b""
        """The beginning of a record, if it is cut within its header."""
        self.state = TlsState.SHAKING

    def _move(self, event: TlsEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    def shake(self, cipher: memoryview) -> bool:
        """Go on with the handshake; True once it is complete. Raises TlsError.

        Data that came behind it stays inside: `decrypt` returns it, even if given nothing.
        """
        if self._is_first and cipher:
            if cipher[0] != _HANDSHAKE_RECORD:
                self._move(TlsEvent.FAIL)
                raise NotTlsError("it does not speak TLS; set security.protocol=SSL on that client")
            self._is_first = False
        self._count(cipher)
        self._feed(cipher)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            self._move(TlsEvent.FAIL)
            raise TlsError(f"its TLS handshake failed: {reason_of(error)}") from None
        self._move(TlsEvent.FINISH)
        return True

    def decrypt(self, cipher: memoryview, into: memoryview) -> tuple[int, int]:
        """Decrypt into a buffer until it is full or nothing is left that can be decrypted.

        Returns how many bytes of `cipher` were used, and how many of `into` were filled. Raises
        TlsError.
        """
        incoming, tls = self._incoming, self._tls
        used = filled = 0
        size, room = len(cipher), len(into)
        while filled < room and self.state is TlsState.OPEN:
            if used < size and not incoming.pending and not tls.pending():
                used += self._fed(cipher[used : used + FEED_BYTES])
            try:
                # A read returns one record at most.
                count = cast("int", tls.read(room - filled, cast("bytearray", into[filled:])))
            except ssl.SSLWantReadError:
                if self._silent > SILENT_BYTES_MAX:
                    self._move(TlsEvent.FAIL)
                    raise TlsError("it sends TLS records without data") from None
                if used == size:
                    break
                used += self._fed(cipher[used : used + FEED_BYTES])
                continue
            except ssl.SSLError as error:
                self._move(TlsEvent.FAIL)
                raise TlsError(f"its TLS data is invalid: {reason_of(error)}") from None
            filled += count
            self._silent = 0
            if filled < room or not tls.pending():
                self._silent_records -= 1
            if not count:
                self._move(TlsEvent.END)
            elif used == size and not incoming.pending and not tls.pending():
                # Another read would only raise.
                break
        self._data_bytes += filled
        return used, filled

    def _fed(self, cipher: memoryview) -> int:
        """Give more to OpenSSL, which has read what it was given before."""
        may_be_silent = SILENT_RECORDS_MAX + self._data_bytes // BYTES_A_SILENT_RECORD
        if self._silent_records > may_be_silent:
            self._move(TlsEvent.FAIL)
            raise TlsError("it sends too many TLS records without data")
        self._silent += len(cipher)
        self._count(cipher)
        return self._feed(cipher)

    def _count(self, cipher: memoryview) -> None:
        """Count the records that begin in this piece, as their headers, which are not encrypted."""
        at, size = self._rest, len(cipher)
        if self._header:
            cut = _HEADER_BYTES - len(self._header)
            header = self._header + cipher[:cut]
            if len(header) < _HEADER_BYTES:
                self._header = header
                return
            self._header = b""
            at = cut + (header[3] << 8 | header[4])
        while at < size:
            self._silent_records += 1
            if size - at < _HEADER_BYTES:
                self._header = bytes(cipher[at:])
                at = size
            else:
                at += _HEADER_BYTES + (cipher[at + 3] << 8 | cipher[at + 4])
        self._rest = at - size

    def encrypt(self, plain: bytes | bytearray | memoryview) -> None:
        """Encrypt; the cipher text is in `outgoing`. Raises TlsError."""
        view = memoryview(plain)
        try:
            while view:
                view = view[self._tls.write(view) :]
        except ssl.SSLError as error:
            if self.state is TlsState.OPEN:
                self._move(TlsEvent.FAIL)
            raise TlsError(f"its TLS data cannot be encrypted: {reason_of(error)}") from None

    @property
    def is_ended(self) -> bool:
        """Whether the peer has said that it sends no more."""
        return self.state is TlsState.ENDED

    @property
    def outgoing_bytes(self) -> int:
        """How much there is to be sent."""
        return self._outgoing.pending

    def outgoing(self) -> bytes:
        """Take what is to be sent; empty if there is nothing."""
        return self._outgoing.read()

    def say_goodbye(self) -> None:
        """Tell the peer that nothing more follows (close_notify), which `outgoing` then holds."""
        if self.state in (TlsState.OPEN, TlsState.ENDED):
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                # It wants to wait for the peer's answer, which nobody needs.
                return

    def peer_certificate(self) -> bytes | None:
        """The peer's certificate in DER, which OpenSSL has verified; None if it has sent none."""
        return self._tls.getpeercert(binary_form=True)

    def version(self) -> str:
        """The protocol's version, such as ``TLSv1.3``."""
        return self._tls.version() or ""


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason in lower-case words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({error.verify_message})"
    if isinstance(error, ssl.SSLEOFError):
        return "the connection ended within it"
    return (error.reason or "protocol error").replace("_", " ").lower()
