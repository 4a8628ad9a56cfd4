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
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

FEED_BYTES: Final = 32 * 1024
"""Cipher text is given to OpenSSL in pieces of this size: its buffer grows to the largest piece and
never shrinks, and every connection has one."""

RECORD_PLAIN_BYTES_MAX: Final = 16 * 1024
"""The most plain text in a record."""

RECORD_BYTES_MAX: Final = 16 * 1024 + 2048 + 5
"""The largest record with its header: as much as may be left of earlier cipher text."""

SILENT_RECORDS_MAX: Final = 256
"""A peer that has sent more records without data is not let go on. They are a handshake's messages,
key updates, or empty. 27 bytes of a key update take OpenSSL 30 us, and are answered by as many: it
does not matter how much data lies between two of them."""

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
        "_protocol",
        "_read",
        "_rest",
        "_silent_records",
        "_tls",
        "_unread",
        "state",
    )

    def __init__(self, context: ssl.SSLContext, protocol: str = "SSL") -> None:
        """`protocol` is the listener's, for what is said to who does not speak it."""
        self._protocol = protocol
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._feed = self._incoming.write
        self._read = cast("Callable[[int, memoryview], int]", self._tls.read)
        """Decrypts one record at most, into a buffer."""
        self._is_first = True
        self._header = b""
        """The beginning of a record, if it is cut within its header."""
        self._rest = 0
        """How many bytes are missing of a record that is cut behind its header."""
        self._unread = 0
        """How many whole records OpenSSL has that were not read from it."""
        self._silent_records = 0
        self._data_bytes = 0
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
                raise NotTlsError(
                    f"it does not speak TLS; set security.protocol={self._protocol} on that client"
                )
            self._is_first = False
        self._unread += self._records_ended(cipher)
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
        read = self._read
        used = filled = 0
        size, room = len(cipher), len(into)
        if not room or self.state is not TlsState.OPEN:
            return 0, 0
        while True:
            unread = self._unread
            try:
                while unread and filled < room:
                    count = read(room - filled, into[filled:])
                    if not count:
                        self._move(TlsEvent.END)
                        break
                    filled += count
                    unread -= 1
            except ssl.SSLWantReadError:
                # All records are read, and these were without data.
                self._add_silent(unread)
                unread = 0
            except ssl.SSLError as error:
                self._move(TlsEvent.FAIL)
                raise TlsError(f"its TLS data is invalid: {reason_of(error)}") from None
            if filled == room and self._tls.pending():
                # The last record is read in part.
                unread += 1
            self._unread = unread
            if used == size or filled == room or self.state is not TlsState.OPEN:
                break
            piece = cipher[used : used + FEED_BYTES]
            self._unread = self._records_ended(piece)
            used += self._feed(piece)
        self._data_bytes += filled
        return used, filled

    def least_to_come(self, plain_bytes: int) -> int:
        """The least cipher text that must arrive before so much plain text can be decrypted.

        Valid once `decrypt` has returned what there was: a part of one record may be here.
        """
        if not self._rest:
            return plain_bytes
        return min(plain_bytes, self._rest + max(0, plain_bytes - RECORD_PLAIN_BYTES_MAX))

    def _add_silent(self, count: int) -> None:
        self._silent_records += count
        if self._silent_records > SILENT_RECORDS_MAX + self._data_bytes // BYTES_A_SILENT_RECORD:
            self._move(TlsEvent.FAIL)
            raise TlsError("it sends too many TLS records without data")

    def _records_ended(self, cipher: memoryview) -> int:
        """How many records end within this piece of cipher text: their headers are plain text.

        A read when there is no record would raise, and to ask OpenSSL before each costs as much.
        """
        size, at = len(cipher), self._rest
        if self._header:
            cut = _HEADER_BYTES - len(self._header)
            header = self._header + cipher[:cut]
            if len(header) < _HEADER_BYTES:
                self._header = header
                return 0
            self._header = b""
            at = cut + (header[3] << 8 | header[4])
        ended = int(0 < at <= size)
        while at <= size - _HEADER_BYTES:
            at += _HEADER_BYTES + (cipher[at + 3] << 8 | cipher[at + 4])
            ended += at <= size
        if at < size:
            self._header = bytes(cipher[at:])
        self._rest = max(0, at - size)
        return ended

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
        """Announce the end to the peer (close_notify), which `outgoing` then holds."""
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
