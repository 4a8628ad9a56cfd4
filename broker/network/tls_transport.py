"""The transport of TLS listeners: a non-blocking socket, and an engine between it and the frames.

Kafka's `SslTransportLayer` in asyncio's terms. Cipher text is received into one buffer that all
connections of a listener share, and decrypted into another; a large request's bytes go from there
straight into their frame. File regions are read and encrypted in pieces, because `sendfile` would
send them in plain text.

- Handshakes have turns (`HANDSHAKES_A_TURN`), so that a storm of clients delays the others little,
  and `tierlog.tls.handshake.timeout.ms`.
- Whatever has arrived is decrypted and handed on at once: no plain text stays where no event of the
  socket would show it.
- A client that does not begin a handshake is disconnected without an answer.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ...clients.protocol.primitives import size_of
from ...security.session import SecurityProtocol, Session
from ...security.tls.context import ServerContext
from ...security.tls.engine import (
    FEED_BYTES,
    RECORD_BYTES_MAX,
    NotTlsError,
    TlsEngine,
    TlsError,
)
from ...security.tls.principal import NoRuleMatchesError, principal_of
from ...storage.files import FileRegion
from .transport import (
    SCRATCH_BYTES,
    AttachableTransport,
    OwnedSocket,
    Receiver,
    SharedScratch,
    answer_bytes,
    log_unreadable,
)

ENCRYPTED_BYTES: Final = 64 * 1024
"""Plain text is encrypted in pieces of this size. A connection's buffer of cipher text grows to the
largest piece and never shrinks; larger pieces save nothing."""

HANDSHAKES_A_TURN: Final = 4
"""How many handshakes go on before other connections have their turn; a step takes about 1 ms."""

HANDSHAKE_BYTES_MAX: Final = 256 * 1024
"""A client that has sent this much without completing its handshake is disconnected."""

CONTROL_BYTES_MAX: Final = 64 * 1024
"""How many bytes of answers to a client's key updates may wait for it to read them."""

LOW_WATER_BYTES: Final = 32 * 1024
"""While a request is incomplete, the system wakes us for what is missing or for so much: a client
sends 16 KiB at a time, and to be woken costs more than to decrypt it."""

_TURN_BYTES = 1024 * 1024
"""The most that one connection encrypts and sends before the other ones get their turn."""


class HandshakeTurns:
    """The queue of connections whose handshake can go on."""

    def __init__(self) -> None:
        self._waiting: deque[TlsTransport] = deque()
        self._is_scheduled = False

    def join(self, transport: "TlsTransport") -> None:
        """Let the handshake of this connection go on soon."""
        self._waiting.append(transport)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        for _ in range(min(HANDSHAKES_A_TURN, len(self._waiting))):
            self._waiting.popleft().shake()
        self._schedule()


class TlsAcceptor:
    """What the connections of one TLS listener share."""

    def __init__(
        self, context: ServerContext, handshake_s: float, protocol: SecurityProtocol = "SSL"
    ) -> None:
        self.current = context
        """What new connections use; open ones keep theirs."""
        self.handshake_s = handshake_s
        """How long a handshake may take, in seconds."""
        self.session = Session(protocol=protocol)
        """What a connection has authenticated before its handshake."""
        self.turns = HandshakeTurns()
        self.plain = memoryview(bytearray(SCRATCH_BYTES + RECORD_BYTES_MAX))
        """The buffer for plain text, filled and emptied within one callback."""

    def accept(
        self, connected: socket.socket, host: str, scratch: SharedScratch
    ) -> AttachableTransport:
        """The transport of an accepted socket."""
        return TlsTransport(connected, host, scratch, self)

    def watch(
        self,
        transport: AttachableTransport,
        on_secured: Callable[[bytes | None], str | None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Before `attach`: what to call at the end of the handshake (`TlsTransport`)."""
        assert isinstance(transport, TlsTransport), "A TLS listener has TLS transports."
        transport.on_secured, transport.on_failed = on_secured, on_failed

    def identify(self, session: Session, certificate: bytes | None) -> Session | str:
        """The session of a client with this certificate, or why the client is not let in.

        Where SASL follows, it alone says who the client is.
        """
        if session.protocol != "SSL":
            return session
        try:
            principal = principal_of(certificate, self.current.name_of)
        except NoRuleMatchesError as error:
            return str(error)
        return session.authenticated(principal, None, None)


class TlsTransport(OwnedSocket):
    """A `Transport` that speaks TLS."""

    __slots__ = (
        "_acceptor",
        "_cipher",
        "_deadline",
        "_engine",
        "_is_shaking",
        "_low_water",
        "_shaken_bytes",
        "on_failed",
        "on_secured",
    )

    def __init__(
        self,
        connected: socket.socket,
        peer_host: str,
        scratch: SharedScratch,
        acceptor: TlsAcceptor,
    ) -> None:
        super().__init__(connected, peer_host, scratch)
        self.on_secured: Callable[[bytes | None], str | None] | None = None
        """Given the client's certificate in DER, returns why it is not let in, or None."""
        self.on_failed: Callable[[str], None] = lambda _: None
        """Given the reason before the connection is closed because of it."""
        self._acceptor = acceptor
        self._engine = TlsEngine(acceptor.current.context, acceptor.session.protocol)
        self._cipher: memoryview | None = None
        """Encrypted bytes that the socket did not accept yet."""
        self._is_shaking = True
        self._low_water = 1
        """How many bytes must have arrived before the system says so."""
        self._shaken_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None

    def attach(self, receiver: Receiver) -> None:
        """Begin the handshake; after it, start reading for `receiver`."""
        assert self.on_secured is not None, "The acceptor watches a transport before it begins."
        self._receiver = receiver
        self._deadline = self._loop.call_later(self._acceptor.handshake_s, self._is_late)
        self.resume_reading()

    def _is_closed(self) -> bool:
        return self._receiver is None

    # The handshake

    def _is_late(self) -> None:
        self._fail(f"its TLS handshake took longer than {self._acceptor.handshake_s:g} s")

    def shake(self) -> None:
        """Go on with the handshake: it is this connection's turn."""
        if self._is_closed():
            return
        cipher = self._scratch.view[:FEED_BYTES]
        try:
            size = self._socket.recv_into(cipher)
        except (BlockingIOError, InterruptedError):
            self.resume_reading()
            return
        except OSError:
            size = 0
        if not size:
            # Who only looks whether the port is open is no failure.
            self._fail("it disconnected during its TLS handshake" if self._shaken_bytes else "")
            return
        self._shaken_bytes += size
        try:
            is_done = self._engine.shake(cipher[:size])
        except NotTlsError as error:
            self._fail(str(error))
            return
        except TlsError as error:
            self._send_alert(str(error))
            return
        self.flush()
        if self._is_closed():
            return
        if is_done:
            self._shaken()
        elif self._shaken_bytes > HANDSHAKE_BYTES_MAX:
            self._fail(f"its TLS handshake is longer than {HANDSHAKE_BYTES_MAX} bytes")
        else:
            self.resume_reading()

    def _shaken(self) -> None:
        """The handshake is complete; data may have come with its last message."""
        self._is_shaking = False
        self._forget_deadline()
        assert self.on_secured is not None
        refusal = self.on_secured(self._engine.peer_certificate())
        if refusal is not None:
            self._fail(refusal)
            return
        self.resume_reading()
        self._deliver(self._scratch.view[:0])

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _send_alert(self, reason: str) -> None:
        """Send OpenSSL's alert, and close."""
        if self._cipher is None and self._engine.outgoing_bytes:
            with suppress(OSError):
                self._socket.send(self._engine.outgoing())
                # What is unread at the close would make the system drop the alert.
                self._socket.recv_into(self._scratch.buffer)
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        if self._receiver is not None:
            if reason:
                self.on_failed(reason)
            self.close()

    # Receiving

    def resume_reading(self) -> None:
        was_reading = self._reading
        if not was_reading:
            # What was read ahead or kept may have completed the request.
            self._wait_for(1)
        super().resume_reading()
        if self._reading and not was_reading and self._engine.is_ended:
            self._loop.call_soon(self._on_end)

    def read_ahead(self) -> memoryview | None:
        if self._reading or self._receiver is None or self._is_shaking:
            return None
        plain = self._acceptor.plain
        if self._engine.is_ended:
            return plain[:0]
        try:
            size = self._socket.recv_into(self._scratch.buffer)
            _, filled = self._engine.decrypt(self._scratch.view[:size], plain)
        except (BlockingIOError, InterruptedError):
            return None
        except (OSError, TlsError):
            return plain[:0]
        if not size or filled or self._engine.is_ended:
            return plain[:filled]
        return None

    def _readable(self) -> None:
        receiver = self._receiver
        assert receiver is not None, "A closed transport has no reader."
        if self._is_shaking:
            self._reading = False
            self._loop.remove_reader(self._fd)
            self._acceptor.turns.join(self)
            return
        readable_bytes = receiver.readable_bytes
        if not readable_bytes:
            self._peek()
            return
        try:
            size = self._socket.recv_into(self._scratch.buffer, readable_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if size:
            self._deliver(self._scratch.view[:size])
            if self._reading:
                self._wait_for(self._engine.least_to_come(receiver.missing_bytes))
        else:
            self.close()

    def _wait_for(self, nbytes: int) -> None:
        """Let the system wake us when so much has arrived, which must be certain to come."""
        low_water = min(max(nbytes, 1), LOW_WATER_BYTES)
        if low_water != self._low_water:
            self._low_water = low_water
            # Some systems refuse this once the peer has gone, which the next read shows.
            with suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)

    def _deliver(self, cipher: memoryview) -> None:
        """Decrypt what has arrived, and hand it to the connection."""
        receiver, engine = self._receiver, self._engine
        assert receiver is not None, "A closed transport delivers nothing."
        try:
            space = receiver.space()
            if space is not None:
                used, filled = engine.decrypt(cipher, space)
                # The buffer may have to grow, which it cannot while there is a view of it.
                del space
                cipher = cipher[used:]
                if filled:
                    receiver.filled(filled)
                if self._receiver is None:
                    return
            plain = self._acceptor.plain
            used, filled = engine.decrypt(cipher, plain)
        except TlsError as error:
            self._send_alert(str(error))
            return
        assert used == len(cipher) or engine.is_ended, "The buffer has room for all."
        if filled:
            receiver.received(plain[:filled])
        if engine.outgoing_bytes and self._receiver is not None:
            self._answer_control()
        if engine.is_ended:
            self._on_end()

    def _answer_control(self) -> None:
        """Send what reading has produced: answers to key updates."""
        if not self._writing:
            self.flush()
        elif self._engine.outgoing_bytes > CONTROL_BYTES_MAX:
            self._fail("it updates its TLS keys without reading the answers")

    def _on_end(self) -> None:
        """The peer has said that it sends no more; it may still read its responses."""
        receiver = self._receiver
        if receiver is None:
            return
        if receiver.readable_bytes:
            self.close()
        else:
            self.pause_reading()
            receiver.hung_up()

    # Sending

    def flush(self) -> bool:
        if self._writing:
            return not self._queue and self._cipher is None
        if not self._queue and not self._engine.outgoing_bytes:
            return True
        done = self._try_to_send()
        if not done and self._receiver is not None:
            self._writing = True
            self._loop.add_writer(self._fd, self._writable)
        return done

    def _try_to_send(self) -> bool:
        """Send some; if that is impossible, close, and return True: nothing is left to be sent."""
        try:
            return self._send_some()
        except OSError as error:
            log_unreadable(error)
        except TlsError as error:
            self.on_failed(str(error))
        self.close()
        return True

    def _writable(self) -> None:
        done = self._try_to_send()
        receiver = self._receiver
        if receiver is None:
            return
        receiver.progressed()
        if done:
            self._stop_writing()
            receiver.drained()

    def _send_some(self) -> bool:
        """Send until the queue is empty (True), or the socket is full or the turn over (False)."""
        engine, queue = self._engine, self._queue
        budget = _TURN_BYTES
        while budget > 0:
            cipher = self._cipher
            if cipher is None:
                if not engine.outgoing_bytes:
                    if not queue:
                        return True
                    engine.encrypt(self._take())
                cipher = memoryview(engine.outgoing())
            try:
                sent = self._socket.send(cipher)
            except (BlockingIOError, InterruptedError):
                sent = 0
            if sent < len(cipher):
                self._cipher = cipher[sent:]
                return False
            self._cipher = None
            budget -= sent
        return not queue and not engine.outgoing_bytes

    def _take(self) -> bytes | bytearray | memoryview:
        """Take the next plain text from the queue, small pieces joined."""
        queue = self._queue
        parts: list[bytes | bytearray | memoryview] = []
        room = ENCRYPTED_BYTES
        while queue and room:
            head = queue[0]
            size = size_of(head)
            if size <= room:
                queue.popleft()
                parts.append(head.read_all() if isinstance(head, FileRegion) else head)
                room -= size
                continue
            if isinstance(head, FileRegion):
                queue[0] = head.slice(room, size - room)
                parts.append(head.slice(0, room).read_all())
            else:
                view = memoryview(head)
                queue[0] = view[room:]
                parts.append(view[:room])
            room = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def unsent_bytes(self) -> int:
        cipher = 0 if self._cipher is None else len(self._cipher)
        return sum(map(answer_bytes, self._queue)) + cipher + self._engine.outgoing_bytes

    def _say_goodbye(self) -> None:
        self._forget_deadline()
        if self._cipher is None:
            self._engine.say_goodbye()
            if self._engine.outgoing_bytes:
                with suppress(OSError):
                    self._socket.send(self._engine.outgoing())
