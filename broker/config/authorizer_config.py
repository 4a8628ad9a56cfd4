"""The properties of the authorizer: `authorizer.class.name`, and those that Kafka's class reads."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...security.session import ANONYMOUS
from .config_values import ConfigValues

if TYPE_CHECKING:
    from ...replication.authorizer.standard_authorizer import StandardAuthorizer


def configured_authorizer(values: ConfigValues) -> "StandardAuthorizer | None":
    """The authorizer that the properties name; None if they name none.

    Raises KafkaError(INVALID_CONFIG) for `super.users` that are not principals. `config_safety.py`
    refuses any class but Kafka's own.
    """
    if not values.text("authorizer.class.name").strip():
        return None
    # Imported only when needed: most brokers of developers have none.
    from ...replication.authorizer.standard_authorizer import StandardAuthorizer, super_users

    return StandardAuthorizer(
        super_users(values.text("super.users")),
        values.boolean("allow.everyone.if.no.acl.found"),
    )


def super_user_warnings(values: ConfigValues) -> list[str]:
    """A warning if an authorizer has no super user, or one whose name looks like several."""
    if not values.text("authorizer.class.name").strip():
        return []
    text = values.text("super.users").strip()
    if not text and not values.boolean("allow.everyone.if.no.acl.found"):
        return [
            "super.users is empty: only principals with an ACL can do anything, and a new cluster"
            " has no ACLs. Set it to User:<name>."
        ]
    return [
        f"super.users holds {name.strip()} as one principal: separate several by semicolons."
        for name in text.split(";")
        if ",User:" in name.replace(" ", "")
    ]


def anonymous_node_warnings(values: ConfigValues, in_plain_text: Iterable[str]) -> list[str]:
    """A warning if entries decide about nodes that come without a name.

    `in_plain_text` are the listeners at which this node or others connect like that.
    """
    if not values.text("authorizer.class.name").strip():
        return []
    names = {part.strip() for part in values.text("super.users").split(";")}
    listeners = sorted(set(in_plain_text))
    is_open = values.boolean("allow.everyone.if.no.acl.found")
    if not listeners or is_open or ANONYMOUS in names:
        return []
    return [
        f"Nodes connect to {' and '.join(listeners)} in plain text, so as {ANONYMOUS}, which"
        " super.users does not name: unless entries allow it, they cannot replicate, register or"
        " reach the tier's metadata."
    ]
