"""Reports whose topics, keys and figures are as awkward as a tier can make them."""

from collections.abc import Mapping

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.pipeline.spark.audit.audit_page import audit_page
from tierlog.pipeline.spark.audit.audit_report import AuditReport
from tierlog.pipeline.spark.audit.segment_verdict import SegmentVerdict, Totals
from tierlog.pipeline.spark.materialize.materialize_page import materialize_page
from tierlog.pipeline.spark.materialize.topic_tables import TopicProgress
from tierlog.pipeline.spark.profile.profile_page import profile_page
from tierlog.pipeline.spark.profile.profile_report import ProfileReport
from tierlog.pipeline.spark.profile.retention_forecast import Forecast, size_setting, time_setting
from tierlog.pipeline.spark.profile.topic_profile import CodecTotals, PartitionTotals, TopicProfile
from tierlog.tiering.store.object_keys import partition_prefix
from tierlog.tiering.tools.tier_survey import Finding

MARKUP = "<img src=x onerror=alert(1)></td><script>alert(2)</script>"
TIER = f"s3://{'a-bucket-' * 20}/tier"
LONGEST = "w" * 249
TOPICS = (LONGEST, "shop.orders-" * 20 + "eu", "a", *(f"topic-{each:03}" for each in range(9)))
HUGE = 2**62
NOW_MS = 1_790_000_000_000


def pages() -> Mapping[str, str]:
    """The HTML of every page, by a name for it."""
    audit = AuditReport(TIER, _verdicts(), _findings(), _partitions(), metadata_was_read=False)
    nothing = AuditReport(TIER, (), (), (), metadata_was_read=False)
    profiles = [_profile(number, topic) for number, topic in enumerate(TOPICS)]
    return {
        "audit": audit_page(audit, NOW_MS),
        "audit-nothing": audit_page(nothing, NOW_MS),
        "profile": profile_page(ProfileReport(TIER, profiles, _forecasts()), NOW_MS),
        "profile-forecast": profile_page(ProfileReport(TIER, (), _forecasts()), NOW_MS),
        "profile-nothing": profile_page(ProfileReport(TIER, (), ()), NOW_MS),
        "materialize": materialize_page(TIER, 1000, _progress(), NOW_MS),
        "materialize-nothing": materialize_page(TIER, 1, (), NOW_MS),
    }


def _partitions() -> list[TopicIdPartition]:
    ids = [Uuid(b"%016d" % number) for number in range(len(TOPICS))]
    return [TopicIdPartition(each, topic, 0) for each, topic in zip(ids, TOPICS, strict=True)]


def _verdicts() -> list[SegmentVerdict]:
    totals = Totals(HUGE, HUGE, 0, -1, HUGE)
    return [
        SegmentVerdict(each, each.topic_id, HUGE, HUGE + 9, 2**31, totals, ())
        for each in _partitions()
    ]


def _findings() -> list[Finding]:
    key = f"{partition_prefix(_partitions()[0])}/{HUGE:020}-0-{'A' * 22}.log"
    return [
        Finding(key, "log is missing", "restore the object " * 6, True, (HUGE - 9, HUGE - 1)),
        Finding(f"strange/{MARKUP}", "it was not written by tierlog", "find out who", False),
    ]


def _profile(number: int, topic: str) -> TopicProfile:
    profile = TopicProfile(topic)
    profile.partitions = {each: PartitionTotals(9, HUGE, 2**50 + each) for each in range(200)}
    profile.codecs = {"none": CodecTotals(1, HUGE, 2**50, 2**50), "zstd": CodecTotals(1, 1, 1, 90)}
    keys = {MARKUP.encode(): 5 + number, b"\0\xff": 3, b"k" * 300: 2, b"": 1}
    profile.keys.add(keys, nulls=HUGE)
    profile.rates.steps = {NOW_MS // 1000 + each: (each, HUGE) for each in range(5)}
    profile.sizes.counts = {-1: 1, 0: 9, 40: HUGE}
    profile.payload = HUGE
    return profile


def _forecasts() -> list[Forecast]:
    stated = [time_setting("1d"), time_setting("7d"), size_setting("10TiB")]
    return [Forecast(topic, each, 2**50, 2**49, 10**6) for topic in TOPICS for each in stated]


def _progress() -> list[TopicProgress]:
    offsets = {TopicPartition(LONGEST, each): HUGE for each in range(200)}
    topics = [TopicProgress(topic, f"s3a://lake/{topic}", offsets, HUGE) for topic in TOPICS]
    topics[0].error = f"The tier at {TIER} holds no topic {MARKUP!r}"
    topics[1].is_missed = True
    return [*topics, TopicProgress("never", is_missed=True)]
