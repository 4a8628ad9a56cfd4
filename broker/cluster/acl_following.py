"""The authorizer of a process follows the metadata log (`AclPublisher`)."""

from ...replication.authorizer.standard_authorizer import StandardAuthorizer
from ...replication.control.controller import Controller
from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
from ...replication.metadata.quorum_member import QuorumMember


def follow_acls(controller: Controller, authorizer: StandardAuthorizer) -> None:
    """Give the authorizer the access control entries of this image, and of all later ones."""

    def publish_acls(_: ClusterImage, delta: ClusterDelta) -> None:
        authorizer.update(delta.changed_acls)

    controller.subscribe(publish_acls)


def load_as_leader(
    controller: Controller, member: QuorumMember, authorizer: StandardAuthorizer
) -> None:
    """Let the entries decide once this node leads, and has all that was committed before it did.

    The nodes that belong to the cluster by an entry, and not by `super.users`, are let in from then
    on: its controllers and brokers cannot register before.
    """

    def publish(image: ClusterImage, _: ClusterDelta) -> None:
        quorum = member.quorum
        if quorum.is_leader and image.epoch == quorum.epoch:
            authorizer.complete_load()

    controller.subscribe(publish)
