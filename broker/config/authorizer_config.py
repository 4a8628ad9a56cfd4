"""The properties of the authorizer: `authorizer.class.name`, and those that Kafka's class reads."""

from typing import TYPE_CHECKING

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
