"""Pacing of Fetch responses, for clients that stop fetching while their queue is full.

librdkafka fetches ahead into a queue. When a response fills it (100,000 records or 64 MiB), the
client does not fetch again for `fetch.queue.backoff.ms`, a second by default, however soon the
application has emptied the queue. The faster the broker, the sooner the queue is full, and the more
of each second the application has nothing to read (docs/performance.md).

`FetchPacing` recognises such a client by what the broker sees on its connection: large responses in
quick succession, then a pause of about a second though the client has not caught up. From then on
it spaces the responses, at first at six tenths of the speed that filled the queue, and faster step
by step; another pause shows that the speed was too high. A cycle lasts from one pause to the next.
What it delivers a second, pause included, is compared with the last unpaced cycle: where spacing
does not deliver more, the application is the limit, and the connection is left alone for two
minutes, then for twice as long each time.

An application that works for a second after each batch pauses as well, and spacing does not help
it. The size of its batches changes, so the cycle before pacing is soon out of date: every fifth
or sixth cycle is unpaced, to compare the next ones with it. The first one comes after five seconds
without a pause at the latest.

    FREE     --pause-->   PACED
    PACED    --check-->   CHECKING
    CHECKING --compare--> PACED
    CHECKING --outgrow--> RESTING
    PACED    --give_up--> RESTING
    RESTING  --recover--> FREE

This is a core without I/O: `now` is the event loop's time in seconds, speeds are bytes a second.
"""

from enum import Enum

SMALL_BYTES = 64 * 1024
"""A smaller response shows that the client has caught up with the producers."""

PAUSE_S = 0.3
"""A client that fetches again sooner does not pause."""

_FIRST_PAUSE_S = (0.9, 1.3)
"""How long a pause must be for pacing to begin: `fetch.queue.backoff.ms` is 1000 by default."""

_BURST_RESPONSES_MIN = 2
_BURST_BYTES_MIN = 2 * 1024 * 1024
_BURST_FACTOR_MIN = 2.0
"""How much faster than on average, pause included, the responses before a pause must have been."""

_FIRST_FRACTION = 0.6
_GROWTH_A_SECOND = 0.2
_SLOW_GROWTH_A_SECOND = 0.005
_GROWTH_A_SECOND_MORE = 0.006
"""By how much the slow growth increases with each second since the last pause: the application may
have become faster, or another one may read now."""

_RATE_FACTOR_MAX = 2.0
"""How far the speed may be above that of the last cycle when the client pauses."""

_CEILING_FRACTION = 0.97
_SLOW_FROM = 0.9
_GAIN_MIN = 1.1
_FLOOR_FACTOR = 1.5
_OUTGROWN_FACTOR = 1.3
_TRIAL_S = 3.0
_PAUSES_A_CHECK = (4, 4, 5)
"""After how many paced cycles an unpaced one comes, in turn: not always the same number, or batches
that repeat with that period would meet their smallest one at each check."""
_UNPROVEN_S = 5.0
"""How long a paced cycle may last before the first unpaced one has shown that pacing helps."""

_CHECK_MAX_S = 3.0
"""A client that does not pause for this long, without spaced responses, needs no pacing."""

_IDLE_S = 10.0
"""A longer pause ends a cycle, but says nothing about a queue."""

_STEP_MAX_S = 0.1
_CREDIT_S = 0.02
"""How far the responses may lag behind the speed and catch up: timers are a few ms late."""
_WAIT_MIN_S = 0.001
_WAIT_MAX_S = 0.25
"""Below `PAUSE_S`, so that a wait is not taken for a pause."""

_REST_S = 120.0
_REST_MAX_S = 3840.0
_OUTGROWN_FRACTION = 1 / 16
"""The rest when the client has outgrown its pacing, as a fraction of that after giving up."""

_PROOF = 1.5
"""A paced cycle that delivers this many times the unpaced one is proof that pacing helps."""


class PacingState(Enum):
    """Whether the responses of a connection are spaced."""

    FREE = "free"
    PACED = "paced"
    CHECKING = "checking"
    RESTING = "resting"


class PacingEvent(Enum):
    """What changes the state."""

    PAUSE = "the client pauses after a burst"
    CHECK = "after some pauses, or without proof for too long, an unpaced cycle is due"
    COMPARE = "the client pauses in the unpaced cycle"
    OUTGROW = "it does not pause in the unpaced cycle"
    GIVE_UP = "spacing does not deliver more"
    RECOVER = "the rest is over"


_S, _E = PacingState, PacingEvent

TRANSITIONS: dict[tuple[PacingState, PacingEvent], PacingState] = {
    (_S.FREE, _E.PAUSE): _S.PACED,
    (_S.PACED, _E.CHECK): _S.CHECKING,
    (_S.CHECKING, _E.COMPARE): _S.PACED,
    (_S.CHECKING, _E.OUTGROW): _S.RESTING,
    (_S.PACED, _E.GIVE_UP): _S.RESTING,
    (_S.RESTING, _E.RECOVER): _S.FREE,
}
"""Every legal transition; any other is a bug."""

# Python 3.11 takes 0.1 µs to look up an enum member, in every fetch.
_FREE, _PACED, _CHECKING, _RESTING = _S.FREE, _S.PACED, _S.CHECKING, _S.RESTING


class FetchPacing:
    """Decides how long one connection's next Fetch request waits."""

    __slots__ = (
        "_began",
        "_bytes",
        "_ceiling",
        "_checks",
        "_delivered",
        "_is_confirmed",
        "_is_proven",
        "_last_at",
        "_last_bytes",
        "_next_at",
        "_paused_at",
        "_pauses",
        "_ready_at",
        "_responses",
        "_rest_s",
        "_rest_until",
        "_unpaced",
        "rate",
        "state",
    )

    def __init__(self) -> None:
        self.state = _FREE
        self.rate = 0.0
        # The cycle: since the last pause, or since the client last had caught up.
        self._began = 0.0
        self._bytes = 0
        self._responses = 0
        self._last_at = 0.0
        self._last_bytes = 0
        # When the client was free to send the next request.
        self._ready_at = 0.0
        self._next_at = 0.0
        self._paused_at = 0.0
        self._delivered = 0.0
        """What the last paced cycle delivered."""
        self._pauses = 0
        """Pauses since pacing began or since the last unpaced cycle."""
        self._checks = 0
        self._ceiling = 0.0
        self._is_confirmed = False
        """Whether the ceiling was found while pacing; the first one is only the unpaced speed."""
        self._is_proven = False
        """Whether an unpaced cycle has delivered much less than the paced ones."""
        self._unpaced = 0.0
        self._rest_s = _REST_S
        self._rest_until = 0.0

    def _move(self, event: PacingEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    def requested(self, now: float) -> None:
        """A Fetch request is read."""
        if self._responses and now - self._ready_at >= PAUSE_S:
            self._on_pause(now)
            self._responses = 0

    def responded(self, requested_at: float, now: float, nbytes: int) -> float:
        """A response of `nbytes` is sent; returns how long to wait before the next request."""
        self._ready_at = now
        if nbytes < SMALL_BYTES:
            self._responses = 0
            return 0.0
        if not self._responses:
            self._began = requested_at
            self._bytes = 0
        self._responses += 1
        self._bytes += nbytes
        self._last_bytes = nbytes
        step_s, self._last_at = now - self._last_at, now
        if self.state is _PACED:
            self._grow(now, min(step_s, _STEP_MAX_S))
            return self._wait(now, nbytes) if self.state is _PACED else 0.0
        if self.state is _CHECKING and now - self._began > _CHECK_MAX_S:
            self._rest(now, PacingEvent.OUTGROW)
        return 0.0

    def _wait(self, now: float, nbytes: int) -> float:
        assert self.rate > 0, "The speed is that of a burst, which had bytes."
        next_at = max(self._next_at, now - _CREDIT_S) + nbytes / self.rate
        # What is beyond the longest wait is forgiven: later responses would wait for ever.
        self._next_at = min(next_at, now + _WAIT_MAX_S)
        wait_s = self._next_at - now
        if wait_s < _WAIT_MIN_S:
            return 0.0
        self._ready_at = now + wait_s
        return wait_s

    def _grow(self, now: float, step_s: float) -> None:
        """Raise the speed, and see whether pacing has gone on for long enough."""
        growth = _GROWTH_A_SECOND
        if self._is_confirmed and self.rate >= _SLOW_FROM * self._ceiling:
            slow = _SLOW_GROWTH_A_SECOND + _GROWTH_A_SECOND_MORE * (now - self._paused_at)
            growth = min(growth, slow)
        self.rate *= 1 + step_s * growth
        # A shorter cycle would not show what the paced responses deliver.
        is_fast = self.rate > _OUTGROWN_FACTOR * self._ceiling
        due_s = PAUSE_S if is_fast else _UNPROVEN_S
        if not self._is_proven and now - self._began >= due_s:
            self._delivered = self._bytes / (now - self._began)
            self._move(PacingEvent.CHECK)
            self._responses = 0

    def _rest(self, now: float, event: PacingEvent) -> None:
        self._move(event)
        # An application that was faster for a while may need pacing again soon.
        is_outgrown = event is PacingEvent.OUTGROW
        self._rest_until = now + self._rest_s * (_OUTGROWN_FRACTION if is_outgrown else 1)
        self._rest_s = min(2 * self._rest_s, _REST_MAX_S)

    def _on_pause(self, now: float) -> None:
        """The client has paused: end the cycle, and draw the conclusion."""
        if now - self._ready_at > _IDLE_S:
            return
        delivered = self._bytes / (now - self._began)
        if self.state is _RESTING and now >= self._rest_until:
            self._move(PacingEvent.RECOVER)
        if self.state is _FREE:
            self._begin(now, delivered)
        elif self.state is _PACED:
            self._slow_down(now, delivered)
        elif self.state is _CHECKING:
            self._compare(delivered)

    def _begin(self, now: float, delivered: float) -> None:
        shortest, longest = _FIRST_PAUSE_S
        if not shortest <= now - self._ready_at <= longest:
            return
        if self._responses < _BURST_RESPONSES_MIN or self._bytes < _BURST_BYTES_MIN:
            return
        # What the client had received when it asked for the last response.
        speed = (self._bytes - self._last_bytes) / max(self._last_at - self._began, 1e-6)
        if speed < _BURST_FACTOR_MIN * delivered:
            return
        self._unpaced = delivered
        self._ceiling = speed
        self._is_confirmed = False
        self._is_proven = False
        self.rate = max(_FIRST_FRACTION * speed, _FLOOR_FACTOR * delivered)
        self._next_at = 0.0
        self._pauses = 0
        self._move(PacingEvent.PAUSE)

    def _slow_down(self, now: float, delivered: float) -> None:
        held_s = self._last_at - self._began
        gains = delivered >= _GAIN_MIN * self._unpaced
        floor = _FLOOR_FACTOR * self._unpaced
        # Without a pause for minutes, the rate grows far beyond any speed that filled the queue.
        speed = self._bytes / max(self._ready_at - self._began, 1e-6)
        self.rate = min(self.rate, _RATE_FACTOR_MAX * speed)
        self._ceiling = _CEILING_FRACTION * self.rate
        self._is_confirmed = True
        # The sooner the queue was full, the further the speed is above the application's.
        self.rate *= 0.5 if held_s < 0.5 else 0.7 if held_s < 2 else 0.85
        self._paused_at = now
        self._pauses += 1
        self._delivered = delivered
        if not gains and (self.rate <= floor or held_s >= _TRIAL_S):
            self._rest(now, PacingEvent.GIVE_UP)
        elif self._pauses >= _PAUSES_A_CHECK[self._checks % len(_PAUSES_A_CHECK)]:
            self._checks += 1
            self._move(PacingEvent.CHECK)
        self.rate = max(self.rate, floor)

    def _compare(self, delivered: float) -> None:
        """The unpaced cycle is over: compare the next paced ones with it."""
        self._is_proven = self._delivered >= _PROOF * delivered
        if self._is_proven:
            self._rest_s = _REST_S
        # A single cycle may be slow by chance, so the measure falls only halfway to its speed.
        self._unpaced = max(delivered, (self._unpaced + delivered) / 2)
        self.rate = max(self.rate, _FLOOR_FACTOR * self._unpaced)
        self._next_at = 0.0
        self._pauses = 0
        self._move(PacingEvent.COMPARE)
