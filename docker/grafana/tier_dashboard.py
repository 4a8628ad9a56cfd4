"""The dashboard of the remote tier: what is in it, what waits for copy or deletion, its reads."""

from .panels import TOPICS, Dashboard, Panel, all_topics, each_topic, metric, number, rate, total


def _reads(statistic: str) -> str:
    family = f"kafka_log_remote_RemoteLogManager_{statistic}"
    return f"max by (instance) ({metric(family, 'RemoteLogReaderFetchRateAndTimeMs')})"


def _threads(name: str) -> str:
    return total(metric("kafka_log_remote_RemoteStorageThreadPool_Value", name))


def _hits(cache: str) -> str:
    """The share of looks that need not wait for the store, 0 to 1."""
    hits, joined, misses = (
        rate(metric(f"tierlog_tiering_{cache}_{kind}_total"))
        for kind in ("hits", "joined", "misses")
    )
    return f"({hits} + {joined}) / ({hits} + {joined} + {misses})"


def _fullness(name: str) -> str:
    selector = metric("kafka_log_remote_RemoteLogManager_Value", name, 'topic=~"$topic"')
    return f"topk(10, max by (topic, partition) ({selector}))"


_COPY_WAIT = metric("kafka_server_RemoteLogManager_remote_copy_throttle_time_avg")
_FETCH_WAIT = metric("kafka_server_RemoteLogManager_remote_fetch_throttle_time_avg")
_SKIPPED = metric("tierlog_tiering_RemoteLogMetadataManager_Count", "SkippedRecordsPerSec")
_ERRORS = {
    "copies": "RemoteCopyErrorsPerSec",
    "reads": "RemoteFetchErrorsPerSec",
    "deletions": "RemoteDeleteErrorsPerSec",
}
_BEGUN = {
    "copies": "RemoteCopyRequestsPerSec",
    "reads": "RemoteFetchRequestsPerSec",
    "deletions": "RemoteDeleteRequestsPerSec",
}

TIER = Dashboard(
    "tierlog-tier",
    "tierlog: remote tier",
    "What is in the tier, how far copies and deletions are behind, and how quickly it is read.",
    {
        "Is it well?": [
            number(
                "In the tier",
                "bytes",
                f"sum({all_topics('RemoteLogSizeBytes')})",
                "Bytes of segments, by the leaders of their partitions.",
            ),
            number(
                "Segments",
                "short",
                f"sum({all_topics('RemoteLogMetadataCount')})",
                "Segments that the metadata knows, in any state.",
            ),
            number(
                "Waiting to be copied",
                "bytes",
                f"sum({all_topics('RemoteCopyLagBytes')})",
                "Closed segments that are not in the tier yet: they fill the disk.",
            ),
            number(
                "Waiting to be deleted",
                "bytes",
                f"sum({all_topics('RemoteDeleteLagBytes')})",
                "Remote segments past retention: they cost money.",
            ),
            number(
                "Errors in an hour",
                "short",
                " + ".join(
                    f"sum(increase({all_topics(name, 'Count')}[1h]))" for name in _ERRORS.values()
                ),
                "Copies, reads and deletions that failed; each is tried again.",
            ),
            number(
                "Metadata skipped",
                "short",
                f"sum({_SKIPPED})",
                "Records of __remote_log_metadata that could not be applied; the log says which.",
            ),
        ],
        "Traffic": [
            Panel(
                "Copied and read",
                "Bps",
                {
                    "copied": rate(all_topics("RemoteCopyBytesPerSec", "Count"), ""),
                    "read": rate(all_topics("RemoteFetchBytesPerSec", "Count"), ""),
                },
                "Bytes to the store, and from it for consumers.",
            ),
            Panel(
                "Copied and read now",
                "Bps",
                {
                    "{{instance}} copied": total(metric("kafka_server_RLMCopy_byte_rate")),
                    "{{instance}} read": total(metric("kafka_server_RLMFetch_byte_rate")),
                },
                "Over the window of the quotas.",
            ),
            Panel(
                "Begun",
                "ops",
                {each: rate(all_topics(name, "Count"), "") for each, name in _BEGUN.items()},
                "Segments whose copy, read or deletion began.",
            ),
            Panel(
                "Errors",
                "ops",
                {each: rate(all_topics(name, "Count"), "") for each, name in _ERRORS.items()},
                "Each is tried again; the log says why.",
            ),
        ],
        "By topic": [
            Panel(
                "Bytes in the tier",
                "bytes",
                {"{{topic}}": total(each_topic("RemoteLogSizeBytes"), "topic")},
                "By topic.",
            ),
            Panel(
                "Waiting to be copied",
                "bytes",
                {"{{topic}}": total(each_topic("RemoteCopyLagBytes"), "topic")},
                "Closed segments that are on the disk alone.",
            ),
            Panel(
                "Waiting to be copied, segments",
                "short",
                {"{{topic}}": total(each_topic("RemoteCopyLagSegments"), "topic")},
                "The same, in segments.",
            ),
            Panel(
                "Waiting to be deleted",
                "bytes",
                {"{{topic}}": total(each_topic("RemoteDeleteLagBytes"), "topic")},
                "Remote segments past retention.",
            ),
            Panel(
                "Fullest partitions, both tiers",
                "percent",
                {"{{topic}}-{{partition}}": _fullness("RetentionSizeInPercent")},
                "What a partition takes of retention.bytes.",
            ),
            Panel(
                "Fullest partitions, on the disk",
                "percent",
                {"{{topic}}-{{partition}}": _fullness("LocalRetentionSizeInPercent")},
                "What a partition takes of local.retention.bytes.",
            ),
        ],
        "Reading": [
            Panel(
                "Time of a read",
                "ms",
                {"{{instance}} mean": _reads("Mean"), "{{instance}} longest": _reads("Max")},
                "Reads of the last 30 to 60 s.",
            ),
            Panel(
                "Reads that wait for a reader",
                "short",
                {"{{instance}}": _threads("RemoteLogReaderTaskQueueSize")},
                "More than a few for long: raise remote.log.reader.threads.",
            ),
            Panel(
                "Idle readers and copiers",
                "percentunit",
                {
                    "{{instance}} readers": _threads("RemoteLogReaderAvgIdlePercent"),
                    "{{instance}} copiers": total(
                        metric(
                            "kafka_log_remote_RemoteLogManager_Value",
                            "RemoteLogManagerTasksAvgIdlePercent",
                        )
                    ),
                },
                "1: none has anything to do.",
            ),
            Panel(
                "Hits of the caches",
                "percentunit",
                {
                    "{{instance}} chunks": _hits("ChunkCache"),
                    "{{instance}} indexes": _hits("RemoteIndexCache"),
                },
                "Looks that did not have to begin a read of the store.",
            ),
            Panel(
                "Held back by quotas",
                "ms",
                {
                    "{{instance}} copies": total(_COPY_WAIT),
                    "{{instance}} fetches": total(_FETCH_WAIT),
                },
                "How long, on average.",
            ),
            Panel(
                "Fetches that the tier did not answer in time",
                "ops",
                {
                    "{{instance}}": rate(
                        metric("kafka_server_DelayedRemoteFetchMetrics_Count", "ExpiresPerSec")
                    )
                },
                "Longer than remote.fetch.max.wait.ms; the consumer asks again.",
            ),
        ],
    },
    {"topic": f'label_values({TOPICS}_Value{{name="RemoteLogSizeBytes",topic!=""}}, topic)'},
)
