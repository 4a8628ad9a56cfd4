"""The dashboard of brokers: what clients ask of them, and whether brokers and replicas are well."""

from .panels import Dashboard, Panel, all_topics, metric, number, rate, total


def _replicas(name: str) -> str:
    return metric("kafka_server_ReplicaManager_Value", name)


def _sockets(name: str, kind: str = "Count") -> str:
    return metric(f"kafka_server_socket_server_metrics_{kind}", name)


def _requests(name: str) -> str:
    return metric("kafka_network_RequestMetrics_Count", name)


def _controller(name: str) -> str:
    return metric("kafka_controller_KafkaController_Value", name)


def _pool(name: str) -> str:
    return metric("kafka_network_SocketServer_Value", name)


def _cleaner(name: str) -> str:
    return metric("kafka_log_LogCleanerManager_Value", name)


_FAILURES = metric("tierlog_server_Supervisor_Count", "FailuresPerSec", 'loop=""')

BROKER = Dashboard(
    "tierlog-broker",
    "tierlog: broker",
    "What clients ask of the brokers, and whether the brokers and their replicas are well.",
    {
        "Is it well?": [
            number(
                "Brokers that answer",
                "short",
                f"count({_pool('MemoryPoolUsed')})",
                "Processes whose metrics Prometheus reads.",
            ),
            number(
                "Connections",
                "short",
                f"sum({_sockets('connection-count', 'Value')})",
                "Open connections of clients and other brokers.",
            ),
            number(
                "Failures in an hour",
                "short",
                f"sum(increase({_FAILURES}[1h]))",
                "Unexpected failures inside the brokers; each is in the log with its traceback.",
            ),
            number(
                "Under-replicated",
                "short",
                f"sum({_replicas('UnderReplicatedPartitions')})",
                "Partitions with a replica that is not in sync; brokers of a cluster.",
            ),
            number(
                "Under min ISR",
                "short",
                f"sum({_replicas('UnderMinIsrPartitionCount')})",
                "Partitions that refuse producers with acks=all; brokers of a cluster.",
            ),
            number(
                "Offline partitions",
                "short",
                f"max({_controller('OfflinePartitionsCount')})",
                "Partitions without a leader; controllers of a cluster.",
            ),
        ],
        "Clients": [
            Panel(
                "Produced",
                "Bps",
                {"{{instance}}": rate(all_topics("BytesInPerSec", "Count"))},
                "Bytes of records that producers sent.",
            ),
            Panel(
                "Consumed",
                "Bps",
                {"{{instance}}": rate(all_topics("BytesOutPerSec", "Count"))},
                "Bytes of records that consumers were sent.",
            ),
            Panel(
                "Requests",
                "reqps",
                {"{{request}}": rate(_requests("RequestsPerSec"), "request")},
                "Requests by API.",
            ),
            Panel(
                "Requests without an answer",
                "reqps",
                {"{{request}}": rate(_requests("ErrorsPerSec"), "request")},
                "Requests that could not be answered, by API.",
            ),
            Panel(
                "Connections",
                "short",
                {"{{instance}}": total(_sockets("connection-count", "Value"))},
                "Open connections.",
            ),
            Panel(
                "Connections that come, go, are refused",
                "cps",
                {
                    "opened": rate(_sockets("connection-creation-total"), ""),
                    "closed": rate(_sockets("connection-close-total"), ""),
                    "refused": rate(_sockets("connection-refused-total"), ""),
                },
                "Refused: closed at once, by a limit or a quota.",
            ),
            Panel(
                "Requests in memory",
                "bytes",
                {
                    "{{instance}} used": total(_pool("MemoryPoolUsed")),
                    "{{instance}} left": total(_pool("MemoryPoolAvailable")),
                },
                "Bytes of requests that are not answered yet, and what is left for more.",
            ),
            Panel(
                "What waits",
                "short",
                {
                    "{{delayedOperation}}": total(
                        metric(
                            "kafka_server_DelayedOperationPurgatory_Value", "NumDelayedOperations"
                        ),
                        "delayedOperation",
                    )
                },
                "Operations that wait: for data, for replicas, for the tier.",
            ),
        ],
        "Replicas and controllers of a cluster": [
            Panel(
                "Partitions",
                "short",
                {
                    "{{instance}} replicas": total(_replicas("PartitionCount")),
                    "{{instance}} led": total(_replicas("LeaderCount")),
                },
                "Replicas on a broker, and those that it leads.",
            ),
            Panel(
                "Replicas that are not in sync",
                "short",
                {
                    "under-replicated": total(_replicas("UnderReplicatedPartitions"), ""),
                    "at min ISR": total(_replicas("AtMinIsrPartitionCount"), ""),
                    "under min ISR": total(_replicas("UnderMinIsrPartitionCount"), ""),
                },
                "By how much the loss of one more broker would hurt.",
            ),
            Panel(
                "Lag of followers",
                "short",
                {
                    "{{instance}}": total(
                        metric("kafka_server_ReplicaFetcherManager_Value", "MaxLag")
                    )
                },
                "The most records that a replica is behind its leader.",
            ),
            Panel(
                "Replication",
                "Bps",
                {
                    "{{instance}} in": rate(all_topics("ReplicationBytesInPerSec", "Count")),
                    "{{instance}} out": rate(all_topics("ReplicationBytesOutPerSec", "Count")),
                },
                "Bytes of records that followers fetch.",
            ),
            Panel(
                "Active controllers",
                "short",
                {"active": total(_controller("ActiveControllerCount"), "")},
                "1 is right.",
            ),
            Panel(
                "Brokers",
                "short",
                {
                    "active": f"max({_controller('ActiveBrokerCount')})",
                    "fenced": f"max({_controller('FencedBrokerCount')})",
                },
                "Registered brokers.",
            ),
        ],
        "Disks and compaction": [
            Panel(
                "Failed log directories",
                "short",
                {
                    "{{instance}}": total(
                        metric("kafka_log_LogManager_Value", "OfflineLogDirectoryCount")
                    )
                },
                "Their partitions are offline on that broker.",
            ),
            Panel(
                "Logs that cannot be compacted",
                "short",
                {"{{instance}}": total(_cleaner("uncleanable-partitions-count"))},
                "The log says which and why.",
            ),
            Panel(
                "Dirtiest log",
                "percent",
                {"{{instance}}": f"max by (instance) ({_cleaner('max-dirty-percent')})"},
                "The share of it that compaction has not seen.",
            ),
            Panel(
                "Age of the metadata snapshot",
                "ms",
                {
                    "{{instance}}": total(
                        metric("kafka_server_SnapshotEmitter_Value", "LatestSnapshotGeneratedAgeMs")
                    )
                },
                "Since the last snapshot of the metadata log, or the start.",
            ),
        ],
    },
    {},
)
