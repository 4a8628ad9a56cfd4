"""What a connection has authenticated."""

from tierlog.broker.network.connection import ConnectedClient
from tierlog.security.session import ANONYMOUS, PLAINTEXT_SESSION, Session


def test_a_plaintext_connection_belongs_to_nobody_for_ever() -> None:
    session = ConnectedClient("127.0.0.1", "PLAINTEXT").session
    assert session is PLAINTEXT_SESSION
    assert session == Session(ANONYMOUS, "PLAINTEXT", None, None, 0)


def test_only_another_principal_voids_what_was_decided() -> None:
    nobody = Session(protocol="SASL_PLAINTEXT")
    alice = nobody.authenticated("User:alice", "PLAIN", 10.0)
    assert alice == Session("User:alice", "SASL_PLAINTEXT", "PLAIN", 10.0, 1)
    again = alice.authenticated("User:alice", "PLAIN", None)
    assert again.authority == 1
    assert again.expires_at is None
