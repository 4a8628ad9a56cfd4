"""The ways in, and the ways not to get in."""

from typing import NamedTuple

from .orders import Order, What
from .secured_node import (
    CLOSED,
    OPEN,
    PASSWORD,
    PASSWORD_MECHANISMS,
    TOKENS,
    USER,
    Papers,
    SecuredNode,
)

RECORDS = 5


class Way(NamedTuple):
    """A listener, and how to come in there."""

    listener: str
    protocol: str
    mechanism: str = ""
    has_certificate: bool = False

    @property
    def name(self) -> str:
        return f"{self.listener}-{self.mechanism}" if self.mechanism else self.listener


WAYS = (
    Way("PLAINTEXT", "PLAINTEXT"),
    Way("SSL", "SSL"),
    Way("MUTUAL", "SSL", has_certificate=True),
    *(Way("SASL_PLAINTEXT", "SASL_PLAINTEXT", each) for each in (*PASSWORD_MECHANISMS, TOKENS)),
    *(Way("SASL_SSL", "SASL_SSL", each) for each in (*PASSWORD_MECHANISMS, TOKENS)),
)


JUDGED_BY_TLS = (
    "expired certificate of the client",
    "client's certificate of a stranger",
    "no certificate of the client",
)
"""The refusals of which the broker's TLS library tells the client."""


MECHANISM_OFF = "mechanism that is off"
PLAIN_TO_TLS = "plain text to TLS"
WRONG_TOKENS = ("forged token", "token for others")
WRONG_LOGINS = ("wrong password", "unknown user")
"""What the names of refused logins begin with."""


def refusal_sentence(mechanism: str) -> str:
    """What Kafka answers to a wrong login, be it the password that is wrong or the user."""
    if mechanism == "PLAIN":
        return "Authentication failed: Invalid username or password"
    reason = f"invalid credentials with SASL mechanism {mechanism}"
    return f"Authentication failed during authentication due to {reason}"


def order_of_way(way: Way, node: SecuredNode, papers: Papers, topic: str) -> Order:
    """Write, with and without a transaction, and read in a group."""
    has_tls = way.protocol.endswith("SSL")
    return Order(
        what="work",
        address=node.addresses[way.listener],
        protocol=way.protocol,
        mechanism=way.mechanism,
        user=USER if way.mechanism in PASSWORD_MECHANISMS else "",
        password=PASSWORD if way.mechanism in PASSWORD_MECHANISMS else "",
        token=str(papers.token) if way.mechanism == TOKENS else "",
        ca=str(papers.ca) if has_tls else "",
        identity=str(papers.identity) if way.has_certificate else "",
        topic=topic,
        group=topic,
        transactional_id=topic,
        records=RECORDS,
    )


def refusals(node: SecuredNode, papers: Papers) -> dict[str, Order]:
    """What a node must not let happen, by a name for each."""
    return (
        _wrong_logins(node, papers)
        | _wrong_papers(node, papers)
        | _without_rights(node)
        | _wrong_listeners(node, papers)
    )


def _wrong_logins(node: SecuredNode, papers: Papers) -> dict[str, Order]:
    cases: dict[str, Order] = {}
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        for mechanism in PASSWORD_MECHANISMS:
            logins = ((USER, "not sesame"), ("nobody", PASSWORD))
            for case, (user, password) in zip(WRONG_LOGINS, logins, strict=True):
                cases[f"{case}, {mechanism} over {protocol}"] = Order(
                    "produce",
                    node.addresses[protocol],
                    protocol,
                    mechanism,
                    user,
                    password,
                    ca=str(papers.ca) if protocol == "SASL_SSL" else "",
                    topic=OPEN,
                )
    for case, token in zip(
        WRONG_TOKENS, (papers.forged_token, papers.token_for_others), strict=True
    ):
        cases[case] = Order(
            "produce",
            node.addresses["SASL_PLAINTEXT"],
            "SASL_PLAINTEXT",
            TOKENS,
            token=str(token),
            topic=OPEN,
            # aiokafka takes it that a refused token is a good one, and waits.
            patience_s=4,
        )
    return cases


def _wrong_papers(node: SecuredNode, papers: Papers) -> dict[str, Order]:
    def order(listener: str, ca: object, identity: object = "") -> Order:
        address = node.addresses[listener]
        return Order("produce", address, "SSL", ca=str(ca), identity=str(identity), topic=OPEN)

    expired, strange, absent = JUDGED_BY_TLS
    return {
        expired: order("MUTUAL", papers.ca, papers.expired_identity),
        strange: order("MUTUAL", papers.ca, papers.strange_identity),
        absent: order("MUTUAL", papers.ca),
        "expired certificate of the broker": order("EXPIRED", papers.ca),
        "wrong authority at the client": order("SSL", papers.stranger),
        "wrong authority at the client, SASL": Order(
            "produce",
            node.addresses["SASL_SSL"],
            "SASL_SSL",
            "PLAIN",
            USER,
            PASSWORD,
            ca=str(papers.stranger),
            topic=OPEN,
        ),
    }


def _without_rights(node: SecuredNode) -> dict[str, Order]:
    def order(what: What, topic: str = OPEN, group: str = OPEN, name: str = OPEN) -> Order:
        return Order(
            what,
            node.addresses["SASL_PLAINTEXT"],
            "SASL_PLAINTEXT",
            "SCRAM-SHA-256",
            USER,
            PASSWORD,
            topic=topic,
            group=group,
            transactional_id=name,
        )

    return {
        "topic not allowed, producer": order("produce", topic=CLOSED),
        "topic not allowed, consumer": order("consume", topic=CLOSED),
        "group not allowed": order("consume", group=CLOSED),
        "transactional id not allowed": order("transact", name=CLOSED),
        "topic not allowed, in a transaction": order("transact", topic=CLOSED),
    }


def _wrong_listeners(node: SecuredNode, papers: Papers) -> dict[str, Order]:
    def order(listener: str, protocol: str, mechanism: str = "") -> Order:
        return Order(
            "produce",
            node.addresses[listener],
            protocol,
            mechanism,
            user=USER if mechanism else "",
            password=PASSWORD if mechanism else "",
            ca=str(papers.ca) if protocol.endswith("SSL") else "",
            topic=OPEN,
            patience_s=2,
        )

    return {
        MECHANISM_OFF: order("FEW", "SASL_PLAINTEXT", "SCRAM-SHA-512"),
        "no login where one is needed": order("SASL_PLAINTEXT", "PLAINTEXT"),
        "login where there is none": order("PLAINTEXT", "SASL_PLAINTEXT", "PLAIN"),
        PLAIN_TO_TLS: order("SSL", "PLAINTEXT"),
        "TLS to plain text": order("PLAINTEXT", "SSL"),
    }
