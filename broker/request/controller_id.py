"""Which node is named as the controller: a client's requests are right with any live broker."""

from ...clients.protocol.api import ListenerKind
from .context import NodeContext, RequestContext

NO_CONTROLLER = -1


def controller_id(node: NodeContext, context: RequestContext) -> int:
    """The id to be named; -1 if there is none.

    To nodes that speak to controllers it is the active one. Clients do not reach controllers, and
    every broker forwards what only the controller decides: they are given a random live broker
    (Kafka's `getRandomAliveBrokerId`).
    """
    if node.member is None:
        return node.controller.leader_id
    if context.listener_kind is ListenerKind.CONTROLLER:
        return node.member.quorum.leader_id
    alive = [
        broker.broker_id for broker in node.controller.image.brokers.values() if not broker.fenced
    ]
    return node.environment.random.choice(alive) if alive else NO_CONTROLLER
