"""Decides on UpdateFeatures (KIP-584, KIP-778, `FeatureControlManager`).

Either all changes are made or none. A level may be raised as far as this node supports; lowering
the metadata version is refused, because records are always written in the newest format. Any other
feature may be lowered by a request that asks for a downgrade.

The level of `kraft.version` is the quorum's and in no record of the image. It is neither raised nor
lowered here: static voters stay static (Kafka can make them dynamic, KIP-853).
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ..metadata.cluster_image import ClusterImage, FeatureLevels
from ..metadata.metadata_records import (
    ELR_FEATURE,
    METADATA_VERSION_FEATURE,
    FeatureLevelRecord,
)
from ..raft.raft_options import KRAFT_VERSION_FEATURE, SUPPORTED_KRAFT_VERSIONS
from .configs.config_control import elr_safety_records
from .controller_config import ControllerConfig, Decision

if TYPE_CHECKING:
    from ...clients.protocol.schema import Message


class UpgradeType(IntEnum):
    """Whether an update may lower a level."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A feature's new level; 0 removes it."""

    feature: str
    level: int
    upgrade_type: int


def update_features(
    config: ControllerConfig,
    image: ClusterImage,
    supported: Mapping[str, tuple[int, int]],
    updates: Sequence[FeatureUpdate],
    validate_only: bool,
    kraft_version: int | None = None,
) -> Decision[None]:
    """The records of the changes. Raises KafkaError(INVALID_UPDATE_VERSION).

    `kraft_version` is the level of the quorum; None in a process that is its whole cluster.
    """
    records: list[Message] = []
    current = dict(image.features)
    if kraft_version is not None:
        supported = {**supported, KRAFT_VERSION_FEATURE: SUPPORTED_KRAFT_VERSIONS}
        current[KRAFT_VERSION_FEATURE] = kraft_version
    for update in updates:
        level = current.get(update.feature, 0)
        problem = _problem(image, config.node_id, supported, level, update)
        if problem:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                + problem,
            )
        if update.feature != KRAFT_VERSION_FEATURE:
            records.append(FeatureLevelRecord(name=update.feature, feature_level=update.level))
    if any(update.feature == ELR_FEATURE and update.level > 0 for update in updates):
        records = [*elr_safety_records(image, config.static_min_isr), *records]
    return Decision([] if validate_only else records, None)


def _problem(
    image: ClusterImage,
    controller_id: int,
    supported: Mapping[str, tuple[int, int]],
    current: int,
    update: FeatureUpdate,
) -> str:
    feature, level, upgrade_type = update
    start = f"Invalid update version {level} for feature {feature}. "
    controller = f"Local controller {controller_id}"
    if feature not in supported:
        return f"{start}{controller} does not support this feature."
    if upgrade_type not in (1, 2, 3):
        return f"{start}The controller does not support the given upgrade type."
    if level < 0:
        return f"{start}A feature version cannot be less than 0."
    own = {name: FeatureLevels(*levels) for name, levels in supported.items()}
    # Static voters need nothing of brokers, and dynamic ones were joined by nodes that know them.
    others = () if feature == KRAFT_VERSION_FEATURE else _others(image, controller_id)
    for node, features in ((controller, own), *others):
        problem = _not_supported(node, features.get(feature, FeatureLevels(0, 0)), level)
        if problem:
            return start + problem
    return _problem_of_change(start, update, current)


def _problem_of_change(start: str, update: FeatureUpdate, current: int) -> str:
    """Why a level that all nodes support cannot follow the current one; empty if it can."""
    feature, level, upgrade_type = update
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        return f"{start}Can't downgrade to a newer version."
    if level > current and feature == KRAFT_VERSION_FEATURE:
        return f"{start}tierlog cannot make the static voters of a cluster dynamic."
    if level >= current:
        return ""
    if upgrade_type == UpgradeType.UPGRADE:
        return (
            f"{start}Can't downgrade the version of this feature without setting the upgrade type "
            "to either safe or unsafe downgrade."
        )
    if feature == KRAFT_VERSION_FEATURE:
        return f"{start}Can't downgrade the version of this feature."
    if feature != METADATA_VERSION_FEATURE:
        return ""
    why = (
        "Refusing to perform the requested downgrade because it might delete metadata information."
        if upgrade_type == UpgradeType.SAFE_DOWNGRADE
        else "Unsafe metadata downgrade is not supported in this version."
    )
    return f"Unsupported metadata.version downgrade from {current} to {level}. {why}"


def _not_supported(node: str, levels: FeatureLevels, level: int) -> str:
    """Why a node cannot run at a level; empty if it can."""
    if levels.lowest <= level <= levels.highest:
        return ""
    if levels.highest == 0:
        return f"{node} does not support this feature."
    of_one = levels.lowest == levels.highest
    versions = f"{levels.lowest}" if of_one else f"{levels.lowest}-{levels.highest}"
    return f"{node} only supports versions {versions}"


def _others(
    image: ClusterImage, controller_id: int
) -> Iterator[tuple[str, Mapping[str, FeatureLevels]]]:
    """The other nodes and what they support: one of them may be of another version or kind."""
    for broker_id, broker in image.brokers.items():
        yield f"Broker {broker_id}", broker.features
    for node_id, controller in image.controllers.items():
        if node_id != controller_id:
            yield f"Controller {node_id}", controller.features
