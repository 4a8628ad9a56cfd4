"""A trial handshake of the stores of the listener between brokers (`SslEngineValidator`).

A key that this listener's own trust store does not vouch for would start a broker that no other
broker can reach. So the stores shake hands with themselves, in memory, before they are used; and
new ones with old ones in both directions, for other brokers change theirs later. Host names are not
checked: a broker does not know by which name others call it.
"""

import ssl

from .context import ServerContext, node_side, refusal

_TURNS_MAX = 20
"""A handshake takes five; certificates of any size pass in one turn."""


def with_client(made: ServerContext) -> ServerContext:
    """The context, with what brokers with the same stores connect with.

    Raises KafkaError(INVALID_CONFIG) if they could not.
    """
    client = node_side(made.settings)
    client.check_hostname = False
    made = made._replace(client=client)
    check_between(made, made)
    return made


def check_between(old: ServerContext, new: ServerContext) -> None:
    """Check that brokers with the old stores and with the new ones connect to each other.

    Both are of `with_client`. Raises KafkaError(INVALID_CONFIG).
    """
    for client, server in ((old, new), (new, old)):
        assert client.client is not None, "A listener between brokers has a client."
        try:
            _shake_hands(client.client, server.context)
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or error.reason or "no handshake"
            stores = "its stores" if old is new else "the old and the new stores"
            raise refusal(
                new.settings.listener,
                f"brokers connect to each other there, and could not with {stores} ({reason});"
                " ssl.truststore has to vouch for the certificate in ssl.keystore",
            ) from None


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Raises ssl.SSLError."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_TURNS_MAX):
        end = ends.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            ends.append(end)
        if not ends:
            return
    raise ssl.SSLError(1, "The handshake does not end")
