"""Whatever bytes a stranger sends, each frame has a reply, and only a proof lets anybody in."""

from hypothesis import given, settings, strategies as st

from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.sasl.scram_keys import SCRAM_SHA_256, credential_of, salted_password
from tierlog.security.sasl.scram import ScramServer
from tierlog.security.sasl.transitions import SaslState
from tierlog.security.session import ANONYMOUS

from .sasl_frames import GOOD, Clock, authenticate, authenticator, handshake, plain
from .sasl_oracle import EVENTS

SALT = b"salt"
SALTED = salted_password(SCRAM_SHA_256, "pencil", SALT, 4096)
CREDENTIAL = credential_of(SCRAM_SHA_256, SALTED, SALT, 4096)
SCRAM = ScramServer(
    SCRAM_SHA_256, lambda _, __: CREDENTIAL, b"secret", SystemEnvironment().random_uuid
)
FIRST = b"n,,n=alice,r=nonce"
FINAL = b"c=biws,r=nonce,p=" + b"A" * 43 + b"="
FRAMES = [
    *(frame for frame in EVENTS.values() if GOOD not in frame),
    handshake(SCRAM_SHA_256.name),
    handshake(SCRAM_SHA_256.name, version=0),
    authenticate(FIRST),
    authenticate(FINAL),
    FIRST,
    FINAL,
]
"""None of them is a proof, and no damage makes one of it."""


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A frame with some bytes changed, cut out or put in."""
    frame = bytearray(draw(st.sampled_from(FRAMES)))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(frame)))
        size = draw(st.integers(0, 4))
        frame[place : place + size] = draw(st.binary(max_size=6))
    return bytes(frame)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(damaged(), st.binary(max_size=60)), max_size=6))
def test_a_stranger_stays_one(frames: list[bytes]) -> None:
    sasl, clock = authenticator(plain(), SCRAM), Clock()
    for frame in frames:
        reply = sasl.receive(memoryview(frame), clock.now)
        assert sasl.session.principal == ANONYMOUS
        assert sasl.state is not SaslState.COMPLETE
        assert bool(reply.failure) == (sasl.state is SaslState.FAILED)
        assert reply.failure.isprintable()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(damaged(), st.binary(max_size=60)), min_size=1, max_size=4))
def test_a_client_stays_who_it_is(frames: list[bytes]) -> None:
    """Also while it proves that again."""
    sasl, clock = authenticator(plain(), SCRAM, max_reauth_ms=60_000), Clock()
    sasl.receive(memoryview(handshake()), clock.now)
    sasl.receive(memoryview(authenticate()), clock.now)
    sasl.receive(memoryview(handshake()), clock.now)
    for frame in frames:
        sasl.receive(memoryview(frame), clock.now)
        assert sasl.session.principal == "User:alice"
        assert sasl.state is not SaslState.COMPLETE
