"""The authorizer of a process follows the metadata log (`AclPublisher`)."""

from ...replication.authorizer.standard_authorizer import StandardAuthorizer
from ...replication.controller.controller import Controller
from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage


def follow_acls(controller: Controller, authorizer: StandardAuthorizer) -> None:
    """Give the authorizer the access control entries of this image, and of all later ones."""

    def publish_acls(_: ClusterImage, delta: ClusterDelta) -> None:
        authorizer.update(delta.changed_acls)

    controller.subscribe(publish_acls)
