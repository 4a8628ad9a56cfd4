"""The level of the quorum, which no story of conformance lowers: its Kafka has static voters."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.replication.control.controller_config import ControllerConfig
from tierlog.replication.control.feature_control import FeatureUpdate, UpgradeType, update_features
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.metadata_records import SUPPORTED_FEATURES


def test_voters_that_may_change_do_not_become_static() -> None:
    def records(update: FeatureUpdate) -> int:
        decision = update_features(
            ControllerConfig(node_id=1), ClusterImage("c"), SUPPORTED_FEATURES, [update], False, 1
        )
        return len(decision.records)

    assert records(FeatureUpdate("kraft.version", 1, UpgradeType.UPGRADE)) == 0
    for kind in (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        with pytest.raises(
            KafkaError, match=r"Can't downgrade the version of this feature\.$"
        ) as no:
            records(FeatureUpdate("kraft.version", 0, kind))
        assert no.value.code is ErrorCode.INVALID_UPDATE_VERSION
