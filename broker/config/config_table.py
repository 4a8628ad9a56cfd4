"""The broker properties that tierlog acts on: Apache Kafka 4.3.1's names, types, defaults, rules.

One row per property: ``name | type | default | rule``, with its description below. The default
``-`` means that there is none, ``""`` is the empty text; rules are in the notation of
`clients/config_def.py`. The table is text so that its four hundred rows do not slow down a start:
`config_values.py` parses it faster than it could build as many objects, and interprets only the
values that are needed.

Two defaults are tierlog's own, because Kafka has none: `process.roles` and `node.id`.
"""

CONFIG_TABLE = """\
advertised.listeners | LIST | -
    What clients are told to connect to, when that is not where we listen.
auto.create.topics.enable | BOOLEAN | true
    Whether asking for the metadata of an unknown topic creates it.
broker.id | INT | -1
    The older name of node.id.
broker.rack | STRING | -
    The rack that Metadata reports for this broker.
compression.type | STRING | producer | [uncompressed, zstd, lz4, snappy, gzip, producer]
    How batches are stored: as the producer sent them, or recompressed.
config.providers | LIST | ""
    What resolves variables in values, such as ${env:NAME}, by name: file, env, dir.
connections.max.idle.ms | LONG | 600000
    A connection that is silent for so long is closed.
controller.listener.names | LIST | -
    The listeners of the controller; a single voter opens none of them.
controller.quorum.bootstrap.servers | LIST | ""
    Addresses of the quorum; for now at most one.
controller.quorum.voters | LIST | ""
    The voters of the metadata quorum as id@host:port; for now exactly one.
default.replication.factor | INT | 1
    Replicas of a topic whose creator does not say how many.
delete.topic.enable | BOOLEAN | true
    Whether DeleteTopics is obeyed.
fetch.max.bytes | INT | 57671680 | [1024,...]
    The most bytes that one fetch response carries, whatever is asked.
group.consumer.assignment.interval.ms | INT | 1000 | [0,...]
    How long a target assignment stands at least, before the next one is worked out (KIP-1263).
group.consumer.assignors | LIST | uniform,range | [uniform, range]
    The server-side assignors that members may ask for; the first is for those who ask for none.
group.consumer.heartbeat.interval.ms | INT | 5000 | [1,...]
    How often members of the consumer protocol are to send heartbeats.
group.consumer.max.assignment.interval.ms | INT | 15000 | [0,...]
    The longest consumer.assignment.interval.ms that a group may have.
group.consumer.max.heartbeat.interval.ms | INT | 15000 | [1,...]
    The longest consumer.heartbeat.interval.ms that a group may have.
group.consumer.max.session.timeout.ms | INT | 60000 | [1,...]
    The longest consumer.session.timeout.ms that a group may have.
group.consumer.max.size | INT | 2147483647 | [1,...]
    The most members of a group of the consumer protocol.
group.consumer.migration.policy | STRING | bidirectional
    Which way groups change protocol live: bidirectional, upgrade, downgrade or disabled.
group.consumer.min.assignment.interval.ms | INT | 0 | [0,...]
    The shortest consumer.assignment.interval.ms that a group may have.
group.consumer.min.heartbeat.interval.ms | INT | 5000 | [1,...]
    The shortest consumer.heartbeat.interval.ms that a group may have.
group.consumer.min.session.timeout.ms | INT | 45000 | [1,...]
    The shortest consumer.session.timeout.ms that a group may have.
group.consumer.regex.refresh.interval.ms | INT | 600000 | [10000,...]
    How often it is looked up which topics a regular expression stands for.
group.consumer.session.timeout.ms | INT | 45000 | [1,...]
    A member of the consumer protocol that is silent for so long is taken to be gone.
group.coordinator.rebalance.protocols | LIST | classic,consumer,streams | [consumer, classic,\
share, streams]
    The protocols of groups that are served; classic always is, share and streams are not yet.
group.initial.rebalance.delay.ms | INT | 3000
    How long an empty group waits for more members to join.
group.max.session.timeout.ms | INT | 1800000
    The longest session timeout a member may ask for.
group.max.size | INT | 2147483647 | [1,...]
    The most members of a group.
group.min.session.timeout.ms | INT | 6000
    The shortest session timeout a member may ask for.
inter.broker.listener.name | STRING | -
    The listener that brokers use among themselves.
listener.security.protocol.map | STRING | SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT
    The security protocol of each listener name.
listeners | LIST | PLAINTEXT://:9092
    Where to listen: NAME://host:port, separated by commas. Port 0 takes any free port.
log.cleaner.backoff.ms | LONG | 15000 | [0,...]
    How long the cleaner pauses when no log needs it.
log.cleaner.dedupe.buffer.size | LONG | 134217728
    Memory for the keys of one cleaning; a log with more keys takes several.
log.cleaner.delete.retention.ms | LONG | 86400000 | [0,...]
    How long a tombstone outlives the record that it deletes.
log.cleaner.enable | BOOLEAN | true
    Whether compacted topics are compacted.
log.cleaner.io.buffer.load.factor | DOUBLE | 0.9
    How full that memory may get.
log.cleaner.io.buffer.size | INT | 524288 | [0,...]
    How many bytes are cleaned in one step.
log.cleaner.io.max.bytes.per.second | DOUBLE | 1.7976931348623157E308
    The cleaner reads and writes no faster.
log.cleaner.max.compaction.lag.ms | LONG | 9223372036854775807 | [1,...]
    How long a record may wait for compaction.
log.cleaner.min.cleanable.ratio | DOUBLE | 0.5 | [0,...,1]
    The share of a log that must be dirty before it is cleaned.
log.cleaner.min.compaction.lag.ms | LONG | 0 | [0,...]
    How long a record is safe from compaction.
log.cleanup.policy | LIST | delete | [compact, delete]
    What happens to old records: delete, compact or both.
log.dir | LIST | /tmp/kafka-logs
    The data directory, where log.dirs does not name it.
log.dirs | LIST | -
    The data directories, separated by commas.
log.flush.interval.messages | LONG | 9223372036854775807 | [1,...]
    Records after which the log is flushed.
log.flush.interval.ms | LONG | -
    Age of an unflushed record after which the log is flushed.
log.flush.offset.checkpoint.interval.ms | INT | 60000 | [0,...]
    How often recovery points are written.
log.flush.scheduler.interval.ms | LONG | 9223372036854775807
    How often log.flush.interval.ms is looked at.
log.flush.start.offset.checkpoint.interval.ms | INT | 60000 | [0,...]
    How often log start offsets are written.
log.index.interval.bytes | INT | 4096 | [0,...]
    Bytes of log between two index entries.
log.index.size.max.bytes | INT | 10485760 | [4,...]
    The largest index file.
log.initial.task.delay.ms | LONG | 30000 | [0,...]
    How long after the start the periodic log work begins.
log.local.retention.bytes | LONG | -2 | [-2,...]
    How much of a tiered partition stays local; -2 as in all.
log.local.retention.ms | LONG | -2 | [-2,...]
    How long a tiered topic's records stay on the local disk; -2 as in all.
log.message.timestamp.after.max.ms | LONG | 3600000 | [0,...]
    How far a record's timestamp may lie in the future.
log.message.timestamp.before.max.ms | LONG | 9223372036854775807 | [0,...]
    How far a record's timestamp may lie in the past.
log.message.timestamp.type | STRING | CreateTime | [CreateTime, LogAppendTime]
    Whose clock stamps records: the producer's or the broker's.
log.preallocate | BOOLEAN | false
    Whether new segments are allocated at once.
log.remote.storage.enable | BOOLEAN | false
    Whether new topics that do not say are tiered; never compacted ones. A name of tierlog's own.
log.retention.bytes | LONG | -1
    How large a partition may grow; -1 without end.
log.retention.check.interval.ms | LONG | 300000 | [1,...]
    How often retention is looked at.
log.retention.hours | INT | 168
    How long records are kept, where neither of the finer ones is set.
log.retention.minutes | INT | -
    How long records are kept, where log.retention.ms is not set.
log.retention.ms | LONG | -
    How long records are kept; -1 for ever.
log.roll.hours | INT | 168 | [1,...]
    The age at which a segment is closed, where log.roll.ms is not set.
log.roll.jitter.hours | INT | 0 | [0,...]
    The same in hours, where log.roll.jitter.ms is not set.
log.roll.jitter.ms | LONG | -
    How far the age may be shortened at random.
log.roll.ms | LONG | -
    The age at which a segment is closed.
log.segment.bytes | INT | 1073741824 | [1048576,...]
    The size at which a segment is closed.
log.segment.delete.delay.ms | LONG | 60000 | [0,...]
    How long a deleted file is kept for its last readers.
max.connection.creation.rate | INT | 2147483647 | [0,...]
    Connections accepted in a second; further ones wait.
max.connections | INT | 2147483647 | [0,...]
    Connections open at once; further ones wait.
max.connections.per.ip | INT | 2147483647 | [0,...]
    Connections open at once from one address; further ones are closed.
max.connections.per.ip.overrides | STRING | ""
    Limits for single addresses, as address:limit.
max.incremental.fetch.session.cache.slots | INT | 1000 | [0,...]
    Incremental fetch sessions kept (KIP-227).
max.request.partition.size.limit | INT | 2000 | [1,...]
    The most partitions that one answer to DescribeTopicPartitions holds.
message.max.bytes | INT | 1048588 | [0,...]
    The largest record batch that is accepted, in bytes.
min.insync.replicas | INT | 1 | [1,...]
    Replicas that must hold a record before acks=all is answered.
node.id | INT | 0 | [0,...]
    This node's number in the cluster.
num.partitions | INT | 1 | [1,...]
    Partitions of a topic whose creator does not say how many.
num.recovery.threads.per.data.dir | INT | 2 | [1,...]
    Logs that are recovered side by side.
offset.metadata.max.bytes | INT | 4096
    The longest text that may accompany a committed offset.
offsets.commit.timeout.ms | INT | 5000 | [1,...]
    How long a commit waits for its replicas.
offsets.load.buffer.size | INT | 5242880 | [1,...]
    Bytes read at once when a coordinator loads its groups.
offsets.retention.check.interval.ms | LONG | 600000 | [1,...]
    How often that is looked at.
offsets.retention.minutes | INT | 10080 | [1,...]
    How long an empty group's offsets are kept.
offsets.topic.compression.codec | INT | 0
    Compression of __consumer_offsets: 0 none, 1 gzip, and so on.
offsets.topic.num.partitions | INT | 50 | [1,...]
    Partitions of __consumer_offsets.
offsets.topic.replication.factor | SHORT | 3 | [1,...]
    Replicas of __consumer_offsets; never more than there are nodes.
offsets.topic.segment.bytes | INT | 104857600 | [1,...]
    Segment size of __consumer_offsets.
process.roles | LIST | broker,controller | [broker, controller]
    The roles of this process; tierlog plays both, broker,controller.
producer.id.expiration.check.interval.ms | INT | 600000 | [1,...]
    How often that is looked at.
producer.id.expiration.ms | INT | 86400000 | [1,...]
    How long an idle producer's sequence numbers are remembered.
queued.max.request.bytes | LONG | -1
    Bytes of requests that are not answered yet, of all connections together; -1: see tierlog.*.
remote.fetch.max.wait.ms | INT | 500 | [1,...]
    How long a fetch waits for the remote storage.
remote.list.offsets.request.timeout.ms | LONG | 30000 | [1,...]
    How long a ListOffsets waits for the remote storage.
remote.log.chunk.cache.total.size.bytes | LONG | 67108864 | [1,...]
    Size of the cache of remote data; a name of tierlog's own.
remote.log.chunk.size.bytes | INT | 4194304 | [1,...]
    Size of the pieces in which remote data is read; a name of tierlog's own.
remote.log.index.file.cache.total.size.bytes | LONG | 1073741824 | [1,...]
    Size of the cache of remote indexes.
remote.log.index.file.cache.ttl.ms | LONG | 900000 | [-1,...]
    How long an unused remote index stays in the cache.
remote.log.manager.copier.thread.pool.size | INT | 10 | [1,...]
    Segments that are copied side by side.
remote.log.manager.copy.max.bytes.per.second | LONG | 9223372036854775807 | [1,...]
    The rate at which segments are copied at most.
remote.log.manager.copy.quota.window.num | INT | 11 | [1,...]
    Samples by which the copy rate is measured.
remote.log.manager.copy.quota.window.size.seconds | INT | 1 | [1,...]
    How long one of these samples is.
remote.log.manager.expiration.thread.pool.size | INT | 10 | [1,...]
    Partitions that are expired side by side.
remote.log.manager.fetch.max.bytes.per.second | LONG | 9223372036854775807 | [1,...]
    The rate at which the remote storage is read.
remote.log.manager.fetch.quota.window.num | INT | 11 | [1,...]
    Samples by which the read rate is measured.
remote.log.manager.fetch.quota.window.size.seconds | INT | 1 | [1,...]
    How long one of these samples is.
remote.log.manager.follower.thread.pool.size | INT | 2 | [1,...]
    Followed partitions that are looked at side by side.
remote.log.manager.task.interval.ms | LONG | 30000 | [1,...]
    How often each tiered partition is looked at.
remote.log.manager.task.retry.backoff.max.ms | LONG | 30000 | [1,...]
    The longest pause after such failures.
remote.log.manager.task.retry.backoff.ms | LONG | 500 | [1,...]
    The first pause after a failure of the remote storage.
remote.log.manager.task.retry.jitter | DOUBLE | 0.2 | [0,...,0.5]
    How much those pauses vary.
remote.log.metadata.custom.metadata.max.bytes | INT | 128 | [0,...]
    The most bytes a store may add to a segment.
remote.log.metadata.manager.class.name | STRING | \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager \
| non-empty string
    What keeps the metadata of segments: Kafka's name for the topic, or a Python class.
remote.log.metadata.manager.class.path | STRING | -
    Folders in which that class is looked for, too.
remote.log.metadata.manager.impl.prefix | STRING | rlmm.config. | non-empty string
    What precedes the properties of the remote log metadata.
remote.log.metadata.manager.listener.name | STRING | - | non-empty string
    The listener through which the metadata topic is read and written.
remote.log.reader.max.pending.tasks | INT | 100 | [1,...]
    Remote reads that may wait.
remote.log.reader.threads | INT | 10 | [1,...]
    Remote reads that run side by side.
remote.log.storage.manager.class.name | STRING | - | non-empty string
    A Python class that stores segments; without one fsspec does.
remote.log.storage.manager.class.path | STRING | -
    Folders in which that class is looked for, too.
remote.log.storage.manager.impl.prefix | STRING | rsm.config. | non-empty string
    What precedes the properties of the remote storage.
remote.log.storage.system.enable | BOOLEAN | false
    Whether topics may be tiered.
remote.partition.remover.segments.per.second | INT | 100 | [1,...]
    Remote segments of deleted topics that go in a second; a name of tierlog's own.
remote.partition.remover.task.interval.ms | LONG | 3600000 | [1,...]
    How often unfinished removals of deleted topics are looked for.
replica.high.watermark.checkpoint.interval.ms | LONG | 5000
    How often high watermarks are written.
replica.lag.time.max.ms | LONG | 30000
    How far behind in time an in-sync follower may be.
share.coordinator.state.topic.min.isr | SHORT | 2 | [1,...]
    min.insync.replicas of __share_group_state.
share.coordinator.state.topic.num.partitions | INT | 50 | [1,...]
    Partitions of __share_group_state.
share.coordinator.state.topic.replication.factor | SHORT | 3 | [1,...]
    Replicas of __share_group_state; never more than there are nodes.
share.coordinator.state.topic.segment.bytes | INT | 104857600 | [1,...]
    Segment size of __share_group_state.
socket.listen.backlog.size | INT | 50 | [1,...]
    Connections that may wait to be accepted.
socket.receive.buffer.bytes | INT | 102400
    SO_RCVBUF of a connection; -1 leaves it to the system.
socket.request.max.bytes | INT | 104857600 | [1,...]
    The largest request that is read, in bytes.
socket.send.buffer.bytes | INT | 102400
    SO_SNDBUF of a connection; -1 leaves it to the system.
tierlog.decompressed.batch.max.bytes | INT | 33554432 | [1048576,...]
    What a produced batch may decompress to where it must be opened; of tierlog's own.
tierlog.fetch.pacing.enable | BOOLEAN | true
    Whether fetch responses are spaced for clients that pause when their queue is full; of
    tierlog's own.
tierlog.max.partitions | INT | -1 | [-1,...]
    Partitions beyond which clients create no more; -1 is what the limit on open files allows.
tierlog.metrics.host | STRING | 127.0.0.1
    The address of the metrics endpoint; a name of tierlog's own.
tierlog.metrics.port | INT | -1 | [-1,...,65535]
    Where metrics are served to Prometheus; -1: nowhere, 0: any free port. Of tierlog's own.
tierlog.request.elements.max | INT | 50000 | [100,...]
    The most elements that the arrays of one request may have together; of tierlog's own.
tierlog.response.max.bytes | INT | 67108864 | [1048576,...]
    The most bytes of an answer, not counting records; of tierlog's own.
tierlog.scrub.grace.ms | LONG | 3600000 | [0,...]
    How old objects in the tier that belong to nothing must be to be removed; of tierlog's own.
tierlog.scrub.interval.ms | LONG | -1 | [1,...] or -1
    How often such objects are looked for in the tier; -1: never. Of tierlog's own.
tierlog.unfinished.requests.max.bytes | LONG | 104857600 | [1,...]
    Requests that have begun to arrive take so much memory at most; of tierlog's own.
tierlog.unsent.answers.max.bytes | LONG | 67108864 | [1,...]
    Answers without records that clients do not take hold so much memory at most; tierlog's own.
transaction.abort.timed.out.transaction.cleanup.interval.ms | INT | 10000 | [1,...]
    How often transactions are looked for that have been open for too long.
transaction.max.timeout.ms | INT | 900000 | [1,...]
    The longest timeout that a producer may ask for.
transaction.partition.verification.enable | BOOLEAN | true
    Whether a batch of an older client opens a transaction only where the coordinator knows of it.
transaction.remove.expired.transaction.cleanup.interval.ms | INT | 3600000 | [1,...]
    How often unused transactional ids are looked for.
transaction.state.log.load.buffer.size | INT | 5242880 | [1,...]
    How much of __transaction_state is read at once to load it.
transaction.state.log.min.isr | INT | 2 | [1,...]
    min.insync.replicas of __transaction_state.
transaction.state.log.num.partitions | INT | 50 | [1,...]
    Partitions of __transaction_state.
transaction.state.log.replication.factor | SHORT | 3 | [1,...]
    Replicas of __transaction_state; never more than there are nodes.
transaction.state.log.segment.bytes | INT | 104857600 | [1,...]
    Segment size of __transaction_state.
transactional.id.expiration.ms | INT | 604800000 | [1,...]
    How long a transactional id that nobody uses is kept.
unclean.leader.election.enable | BOOLEAN | false
    Whether a replica that lost records may lead when no other can.
"""
