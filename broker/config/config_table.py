"""The broker properties that tierlog acts on: Apache Kafka 4.3.1's names, types, defaults, rules.

One row per property: ``name | type | default | rule``, with its description in the indented lines
below. The default ``-`` means that there is none, ``""`` is the empty text; rules are in the
notation of `clients/config_def.py`. The table is text because that makes a start faster than
importing as many objects: `config_values.py` splits the rows, and interprets only the values that
are needed.

`process.roles` and `node.id` have defaults here, but none in Kafka.
"""

CONFIG_TABLE = """\
add.partitions.to.txn.retry.backoff.max.ms | INT | 100 | [0,...]
    How long the broker retries to add the partitions of a transactional batch to its transaction,
    while the producer's previous transaction is ending; at most request.timeout.ms.
add.partitions.to.txn.retry.backoff.ms | INT | 20 | [1,...]
    How long the broker waits before each of these retries.
advertised.listeners | LIST | -
    The addresses that clients connect to, if they differ from listeners.
allow.everyone.if.no.acl.found | BOOLEAN | false
    Whether clients may do anything to a resource that no access control entry covers.
authorizer.class.name | STRING | ""
    org.apache.kafka.metadata.authorizer.StandardAuthorizer decides by access control entries who
    may do what; without it everybody may do everything.
auto.create.topics.enable | BOOLEAN | true
    Whether a metadata request for an unknown topic creates it.
auto.leader.rebalance.enable | BOOLEAN | true
    Whether the active controller moves partitions back to their preferred leaders.
broker.heartbeat.interval.ms | INT | 2000
    How often a broker sends a heartbeat to the active controller.
broker.id | INT | -1
    The older name of node.id.
broker.rack | STRING | -
    The rack of this broker, as reported in Metadata responses.
broker.session.timeout.ms | INT | 9000
    A broker that sends no heartbeat for this long is fenced.
compression.type | STRING | producer | [uncompressed, zstd, lz4, snappy, gzip, producer]
    The codec for stored batches; 'producer' keeps the producer's codec.
config.providers | LIST | ""
    The providers that resolve variables in values, such as ${env:NAME}: file, env, dir.
connection.failed.authentication.delay.ms | INT | 100 | [0,...]
    How long a client of a SASL listener that has failed to authenticate waits for the answer.
connections.max.idle.ms | LONG | 600000
    Connections that are idle for longer than this are closed.
connections.max.reauth.ms | LONG | 0
    How long a session of a SASL listener lasts before the client must authenticate again; 0 for
    ever. Also for one listener and one mechanism.
controlled.shutdown.enable | BOOLEAN | true
    Whether a broker that stops lets the controller move its leaders away first.
controller.listener.names | LIST | -
    The names of listeners that are for controllers, and for those who administer them.
controller.quorum.bootstrap.servers | LIST | ""
    Addresses, host:port, at which a node asks for the leader of the controller quorum; the voters
    are in the metadata log (KIP-853).
controller.quorum.election.backoff.max.ms | INT | 1000 | [0,...]
    The maximum wait before an election, for a node that is not the leader's first successor.
controller.quorum.election.timeout.ms | INT | 1000 | [0,...]
    The minimum time that a node waits for the outcome of an election; at most twice that.
controller.quorum.fetch.max.bytes | INT | 1048576 | [1,...]
    The maximum number of bytes in a fetch of the metadata log.
controller.quorum.fetch.snapshot.max.bytes | INT | 1048576 | [1,...]
    The maximum number of bytes in a fetch of a metadata snapshot.
controller.quorum.fetch.timeout.ms | INT | 2000 | [0,...]
    A voter that has not fetched from the leader for this long starts an election.
controller.quorum.request.timeout.ms | INT | 2000 | [0,...]
    How long a node of the quorum waits for the response to a request.
controller.quorum.retry.backoff.ms | INT | 20 | [0,...]
    How long a node of the quorum waits before it repeats a failed request.
controller.quorum.voters | LIST | ""
    The voters of the controller quorum as id@host:port, if they never change.
controller.socket.timeout.ms | INT | 30000
    How long a broker waits for the controller's response to a request before it repeats it.
default.replication.factor | INT | 1
    The replication factor of topics that are created without one.
delete.topic.enable | BOOLEAN | true
    Whether topics can be deleted.
fetch.max.bytes | INT | 57671680 | [1024,...]
    The maximum number of bytes in a fetch response, whatever the client requests.
follower.fetch.last.tiered.offset.enable | BOOLEAN | false
    Whether an empty replica whose leader no longer has the first records on its disk starts with
    the first record that is not in the tier yet, instead of the first that the leader still has
    (KIP-1023).
group.consumer.assignment.interval.ms | INT | 1000 | [0,...]
    The minimum time between two target assignments of a group (KIP-1263).
group.consumer.assignors | LIST | uniform,range | [uniform, range]
    The server-side assignors; members that do not request one get the first.
group.consumer.heartbeat.interval.ms | INT | 5000 | [1,...]
    The heartbeat interval for members of groups with the consumer protocol.
group.consumer.max.assignment.interval.ms | INT | 15000 | [0,...]
    The maximum consumer.assignment.interval.ms of a group.
group.consumer.max.heartbeat.interval.ms | INT | 15000 | [1,...]
    The maximum consumer.heartbeat.interval.ms of a group.
group.consumer.max.session.timeout.ms | INT | 60000 | [1,...]
    The maximum consumer.session.timeout.ms of a group.
group.consumer.max.size | INT | 2147483647 | [1,...]
    The maximum number of members in a group with the consumer protocol.
group.consumer.migration.policy | STRING | bidirectional
    Which online protocol changes are allowed: bidirectional, upgrade, downgrade or disabled.
group.consumer.min.assignment.interval.ms | INT | 0 | [0,...]
    The minimum consumer.assignment.interval.ms of a group.
group.consumer.min.heartbeat.interval.ms | INT | 5000 | [1,...]
    The minimum consumer.heartbeat.interval.ms of a group.
group.consumer.min.session.timeout.ms | INT | 45000 | [1,...]
    The minimum consumer.session.timeout.ms of a group.
group.consumer.regex.refresh.interval.ms | INT | 600000 | [10000,...]
    How often the topics that match a group's regular expressions are determined again.
group.consumer.session.timeout.ms | INT | 45000 | [1,...]
    A member of the consumer protocol is removed if it sends no heartbeat for this long.
group.coordinator.rebalance.protocols | LIST | classic,consumer,streams | [consumer, classic,\
share, streams]
    The enabled group protocols. classic is always enabled; share and streams are not supported
    yet.
group.initial.rebalance.delay.ms | INT | 3000
    How long an empty group waits for more members before its first rebalance.
group.max.session.timeout.ms | INT | 1800000
    The maximum session timeout that a member may request.
group.max.size | INT | 2147483647 | [1,...]
    The maximum number of members in a group.
group.min.session.timeout.ms | INT | 6000
    The minimum session timeout that a member may request.
initial.broker.registration.timeout.ms | INT | 60000
    A broker that cannot register with the controller for this long after its start stops.
inter.broker.listener.name | STRING | -
    The listener for communication between brokers.
leader.imbalance.check.interval.seconds | LONG | 300 | [1,...]
    How often the active controller checks for partitions without their preferred leader.
listener.security.protocol.map | STRING | SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT
    The security protocol of each listener name.
listeners | LIST | PLAINTEXT://:9092
    The addresses to listen on, as comma-separated NAME://host:port. Port 0 takes any free port.
log.cleaner.backoff.ms | LONG | 15000 | [0,...]
    How long the cleaner sleeps when no log needs cleaning.
log.cleaner.dedupe.buffer.size | LONG | 134217728
    Memory for the keys of one cleaning, in bytes; a log with more keys needs several cleanings.
log.cleaner.delete.retention.ms | LONG | 86400000 | [0,...]
    How long a compacted topic keeps tombstones.
log.cleaner.enable | BOOLEAN | true
    Whether the log cleaner runs, which compacts topics with cleanup.policy=compact.
log.cleaner.io.buffer.load.factor | DOUBLE | 0.9
    How full the dedupe buffer may get, as a fraction.
log.cleaner.io.buffer.size | INT | 524288 | [0,...]
    How many bytes the cleaner processes in one step.
log.cleaner.io.max.bytes.per.second | DOUBLE | 1.7976931348623157E308
    The maximum rate of the cleaner's reads and writes together, in bytes per second.
log.cleaner.max.compaction.lag.ms | LONG | 9223372036854775807 | [1,...]
    The maximum time that a record may stay uncompacted.
log.cleaner.min.cleanable.ratio | DOUBLE | 0.5 | [0,...,1]
    The minimum ratio of dirty bytes to total bytes for a log to be cleaned.
log.cleaner.min.compaction.lag.ms | LONG | 0 | [0,...]
    The minimum time that a record stays uncompacted.
log.cleanup.policy | LIST | delete | [compact, delete]
    What happens to old segments: delete, compact or both.
log.dir | LIST | /tmp/kafka-logs
    The data directory, if log.dirs is not set.
log.dirs | LIST | -
    The data directories, separated by commas.
log.flush.interval.messages | LONG | 9223372036854775807 | [1,...]
    The number of records after which a log is flushed to disk.
log.flush.interval.ms | LONG | -
    The maximum time that a record stays unflushed.
log.flush.offset.checkpoint.interval.ms | INT | 60000 | [0,...]
    How often recovery points are written to their checkpoint file.
log.flush.scheduler.interval.ms | LONG | 9223372036854775807
    The value of log.flush.interval.ms if that is not set.
log.flush.start.offset.checkpoint.interval.ms | INT | 60000 | [0,...]
    How often log start offsets are written to their checkpoint file.
log.index.interval.bytes | INT | 4096 | [0,...]
    The number of log bytes between two entries of the offset index.
log.index.size.max.bytes | INT | 10485760 | [4,...]
    The maximum size of an index file, in bytes.
log.initial.task.delay.ms | LONG | 30000 | [0,...]
    The delay after startup before periodic log tasks begin.
log.local.retention.bytes | LONG | -2 | [-2,...]
    The maximum local size of a tiered partition; -2 uses the total retention
    (log.retention.bytes).
log.local.retention.ms | LONG | -2 | [-2,...]
    How long tiered segments stay on the local disk; -2 uses the total retention
    (log.retention.ms).
log.message.timestamp.after.max.ms | LONG | 3600000 | [0,...]
    The maximum by which a record's timestamp may be later than the broker's time.
log.message.timestamp.before.max.ms | LONG | 9223372036854775807 | [0,...]
    The maximum by which a record's timestamp may be earlier than the broker's time.
log.message.timestamp.type | STRING | CreateTime | [CreateTime, LogAppendTime]
    Whether a record's timestamp is its creation time or its append time.
log.preallocate | BOOLEAN | false
    Whether the file of a new segment is preallocated to its full size.
log.remote.storage.enable | BOOLEAN | false
    Whether new topics are tiered unless they set remote.storage.enable; compacted and
    internal topics never are. A tierlog property.
log.retention.bytes | LONG | -1
    The maximum size of a partition before its oldest segments are deleted; -1 means no limit.
log.retention.check.interval.ms | LONG | 300000 | [1,...]
    How often the broker checks for segments to delete.
log.retention.hours | INT | 168
    How long records are kept, if neither log.retention.ms nor log.retention.minutes is set.
log.retention.minutes | INT | -
    How long records are kept, if log.retention.ms is not set.
log.retention.ms | LONG | -
    How long records are kept; -1 means no limit.
log.roll.hours | INT | 168 | [1,...]
    The maximum age of a segment before a new one is rolled, if log.roll.ms is not set.
log.roll.jitter.hours | INT | 0 | [0,...]
    The maximum random reduction of log.roll.hours, if log.roll.jitter.ms is not set.
log.roll.jitter.ms | LONG | -
    The maximum random reduction of log.roll.ms.
log.roll.ms | LONG | -
    The maximum age of a segment before a new one is rolled.
log.segment.bytes | INT | 1073741824 | [1048576,...]
    The maximum size of a segment file, in bytes.
log.segment.delete.delay.ms | LONG | 60000 | [0,...]
    The delay before a deleted segment's files are removed from disk.
max.connection.creation.rate | INT | 2147483647 | [0,...]
    The maximum number of new connections per second; further ones wait.
max.connections | INT | 2147483647 | [0,...]
    The maximum number of open connections; further ones wait.
max.connections.per.ip | INT | 2147483647 | [0,...]
    The maximum number of open connections per IP address; further ones are closed.
max.connections.per.ip.overrides | STRING | ""
    Overrides of max.connections.per.ip, as comma-separated address:limit.
max.incremental.fetch.session.cache.slots | INT | 1000 | [0,...]
    The maximum number of incremental fetch sessions (KIP-227).
max.request.partition.size.limit | INT | 2000 | [1,...]
    The maximum number of partitions in a DescribeTopicPartitions response.
message.max.bytes | INT | 1048588 | [0,...]
    The maximum size of a record batch, in bytes, after compression.
metadata.log.dir | STRING | -
    The directory of log.dirs with the metadata log; by default the first.
metadata.log.max.record.bytes.between.snapshots | LONG | 20971520 | [1,...]
    A snapshot of the metadata log is written after this many bytes of records.
metadata.log.max.snapshot.interval.ms | LONG | 3600000 | [0,...]
    A snapshot is written if the last one is older and the log has records after it; 0 for never.
metadata.log.segment.bytes | INT | 1073741824 | [8388608,...]
    The size at which a new segment of the metadata log is rolled.
metadata.log.segment.ms | LONG | 604800000
    The maximum age of a segment of the metadata log before a new one is rolled.
metadata.max.idle.interval.ms | INT | 500 | [0,...]
    How often the active controller writes a no-op record while nothing changes; 0 for never.
metadata.max.retention.bytes | LONG | 104857600
    The size of the metadata log and its snapshots above which the oldest are deleted.
metadata.max.retention.ms | LONG | 604800000
    The age above which a snapshot and the metadata log before the next one are deleted.
min.insync.replicas | INT | 1 | [1,...]
    The minimum number of in-sync replicas for a write with acks=all to succeed.
node.id | INT | 0 | [0,...]
    The ID of this node.
num.partitions | INT | 1 | [1,...]
    The number of partitions of topics that are created without one.
num.replica.fetchers | INT | 1 | [1,...]
    The connections with which a broker fetches from each leader.
num.recovery.threads.per.data.dir | INT | 2 | [1,...]
    Accepted for compatibility; has no effect.
offset.metadata.max.bytes | INT | 4096
    The maximum size of the metadata string of a committed offset, in bytes.
offsets.commit.timeout.ms | INT | 5000 | [1,...]
    How long an offset commit waits for replication before it fails.
offsets.load.buffer.size | INT | 5242880 | [1,...]
    How many bytes of __consumer_offsets are read at a time when a coordinator loads its groups.
offsets.retention.check.interval.ms | LONG | 600000 | [1,...]
    How often the coordinator checks for expired offsets.
offsets.retention.minutes | INT | 10080 | [1,...]
    How long the offsets of an empty group are kept.
offsets.topic.compression.codec | INT | 0
    The codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
offsets.topic.num.partitions | INT | 50 | [1,...]
    The number of partitions of __consumer_offsets.
offsets.topic.replication.factor | SHORT | 3 | [1,...]
    The replication factor of __consumer_offsets, at most the number of brokers.
offsets.topic.segment.bytes | INT | 104857600 | [1,...]
    The segment.bytes of __consumer_offsets.
org.apache.kafka.sasl.oauthbearer.allowed.urls | LIST | ""
    The addresses that sasl.oauthbearer.jwks.endpoint.url may have. A property of the JVM in Kafka.
process.roles | LIST | broker,controller | [broker, controller]
    The roles of this process: broker, controller or both.
producer.id.expiration.check.interval.ms | INT | 600000 | [1,...]
    How often the broker checks for expired producer IDs.
producer.id.expiration.ms | INT | 86400000 | [1,...]
    How long the state of an idle idempotent producer is kept.
queued.max.request.bytes | LONG | -1
    The maximum total bytes of unanswered requests on all connections. -1 means that only
    tierlog.unfinished.requests.max.bytes applies; otherwise, the smaller limit applies.
remote.fetch.max.wait.ms | INT | 500 | [1,...]
    How long a fetch waits for remote storage before it is answered.
remote.list.offsets.request.timeout.ms | LONG | 30000 | [1,...]
    How long a ListOffsets request waits for remote storage.
remote.log.chunk.cache.total.size.bytes | LONG | 67108864 | [1048576,...]
    The size of the cache of remote segment data, in bytes. A tierlog property.
remote.log.chunk.size.bytes | INT | 4194304 | [65536,...]
    The size of the chunks in which remote segment data is read, in bytes. A tierlog property.
remote.log.index.file.cache.total.size.bytes | LONG | 1073741824 | [1,...]
    The size of the cache of remote indexes, in bytes.
remote.log.index.file.cache.ttl.ms | LONG | 900000 | [-1,...]
    Accepted for compatibility; has no effect.
remote.log.manager.copier.thread.pool.size | INT | 10 | [1,...]
    The maximum number of segments that are copied to remote storage concurrently.
remote.log.manager.copy.max.bytes.per.second | LONG | 9223372036854775807 | [1,...]
    The maximum rate of copying to remote storage, in bytes per second.
remote.log.manager.copy.quota.window.num | INT | 11 | [1,...]
    The number of samples over which the copy rate is measured.
remote.log.manager.copy.quota.window.size.seconds | INT | 1 | [1,...]
    The length of each copy rate sample, in seconds.
remote.log.manager.expiration.thread.pool.size | INT | 10 | [1,...]
    The maximum number of partitions whose remote segments are expired concurrently.
remote.log.manager.fetch.max.bytes.per.second | LONG | 9223372036854775807 | [1,...]
    The maximum rate of reading from remote storage, in bytes per second.
remote.log.manager.fetch.quota.window.num | INT | 11 | [1,...]
    The number of samples over which the fetch rate is measured.
remote.log.manager.fetch.quota.window.size.seconds | INT | 1 | [1,...]
    The length of each fetch rate sample, in seconds.
remote.log.manager.follower.thread.pool.size | INT | 2 | [1,...]
    The maximum number of follower partitions that are processed concurrently.
remote.log.manager.task.interval.ms | LONG | 30000 | [1,...]
    How often each tiered partition is checked for segments to copy or expire.
remote.log.manager.task.retry.backoff.max.ms | LONG | 30000 | [1,...]
    The maximum backoff between retries after remote storage failures.
remote.log.manager.task.retry.backoff.ms | LONG | 500 | [1,...]
    The initial backoff before a retry after a remote storage failure.
remote.log.manager.task.retry.jitter | DOUBLE | 0.2 | [0,...,0.5]
    The random variation of the retry backoff, as a fraction.
remote.log.metadata.custom.metadata.max.bytes | INT | 128 | [0,...]
    The maximum size of the custom metadata that a plugin returns for a segment, in bytes.
remote.log.metadata.manager.class.name | STRING | \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager \
| non-empty string
    What stores the metadata of remote segments: Kafka's class stands for the metadata topic;
    otherwise, a Python class.
remote.log.metadata.manager.class.path | STRING | -
    Additional folders to search for the remote log metadata manager class.
remote.log.metadata.manager.impl.prefix | STRING | rlmm.config. | non-empty string
    The prefix of properties for the remote log metadata manager.
remote.log.metadata.manager.listener.name | STRING | - | non-empty string
    The listener that is used to read and write the metadata topic.
remote.log.reader.max.pending.tasks | INT | 100 | [1,...]
    The maximum that the queue size metric of remote reads shows; further reads also wait.
remote.log.reader.threads | INT | 10 | [1,...]
    The maximum number of concurrent reads from remote storage.
remote.log.storage.manager.class.name | STRING | - | non-empty string
    A Python class that stores remote segments; if not set, fsspec is used.
remote.log.storage.manager.class.path | STRING | -
    Additional folders to search for the remote storage manager class.
remote.log.storage.manager.impl.prefix | STRING | rsm.config. | non-empty string
    The prefix of properties for the remote storage manager.
remote.log.storage.system.enable | BOOLEAN | false
    Whether tiered storage is enabled.
remote.partition.remover.segments.per.second | INT | 100 | [1,...]
    The maximum number of remote segments of deleted topics to delete per second. A tierlog
    property.
remote.partition.remover.task.interval.ms | LONG | 3600000 | [1,...]
    How often the broker checks for deleted topics whose remote segments are not deleted yet.
replica.fetch.backoff.ms | INT | 1000 | [0,...]
    How long a follower waits after an error before it fetches a partition again.
replica.fetch.max.bytes | INT | 1048576 | [0,...]
    How many bytes of one partition a follower fetches at once; a larger batch is fetched alone.
replica.fetch.min.bytes | INT | 1
    The least bytes that the leader returns before replica.fetch.wait.max.ms is over.
replica.fetch.response.max.bytes | INT | 10485760 | [0,...]
    How many bytes of all partitions a follower fetches at once.
replica.fetch.wait.max.ms | INT | 500
    How long the leader waits for new records before it answers a follower.
replica.high.watermark.checkpoint.interval.ms | LONG | 5000
    How often high watermarks are written to their checkpoint file.
replica.lag.time.max.ms | LONG | 30000
    A follower that has not caught up with the leader for this long is removed from the ISR.
replica.selector.class | STRING | -
    org.apache.kafka.common.replica.RackAwareReplicaSelector lets consumers read from a replica in
    their client.rack; without it, from the leader.
replica.socket.timeout.ms | INT | 30000
    How long a follower waits for the leader's response.
replication.quota.window.num | INT | 11 | [1,...]
    The number of samples over which the rate of throttled replication is measured.
replication.quota.window.size.seconds | INT | 1 | [1,...]
    The length of each of these samples.
security.inter.broker.protocol | STRING | PLAINTEXT | [PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL]
    The name of the listener between brokers, if inter.broker.listener.name is not set.
share.coordinator.state.topic.min.isr | SHORT | 2 | [1,...]
    The min.insync.replicas of __share_group_state.
share.coordinator.state.topic.num.partitions | INT | 50 | [1,...]
    The number of partitions of __share_group_state.
share.coordinator.state.topic.replication.factor | SHORT | 3 | [1,...]
    The replication factor of __share_group_state, at most the number of brokers.
share.coordinator.state.topic.segment.bytes | INT | 104857600 | [1,...]
    The segment.bytes of __share_group_state.
sasl.enabled.mechanisms | LIST | GSSAPI
    The mechanisms of SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Has to be
    set for them, because the default is none of these.
sasl.jaas.config | PASSWORD | -
    The login module of a mechanism of a listener, with the users of PLAIN. Counts only as
    listener.name.<listener>.<mechanism>.sasl.jaas.config.
sasl.mechanism.controller.protocol | STRING | GSSAPI
    The mechanism with which nodes log in to controllers, if their listener has SASL: PLAIN, or, if
    there is one controller, SCRAM. Has to be set then, because the default is none of these.
sasl.mechanism.inter.broker.protocol | STRING | GSSAPI
    The mechanism with which brokers log in to each other, if their listener has SASL: PLAIN or
    SCRAM. Has to be set then, because the default is none of these.
sasl.oauthbearer.clock.skew.seconds | INT | 30
    How far the clock of who issues tokens may differ from this broker's.
sasl.oauthbearer.expected.audience | LIST | ""
    The audiences of which a token has to have one. Without any, it must have none.
sasl.oauthbearer.expected.issuer | STRING | -
    The issuer that a token has to have; any if it is not set.
sasl.oauthbearer.jwks.endpoint.refresh.ms | LONG | 3600000
    How often the keys that verify tokens are read from their endpoint.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | LONG | 10000
    How long reading those keys is tried again after a failure.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | LONG | 100
    The first wait before that; it doubles each time.
sasl.oauthbearer.jwks.endpoint.url | STRING | -
    The address of the keys that verify tokens (JWKS): file:, https: or http:.
sasl.oauthbearer.jwt.validator.class | CLASS | \
org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    What verifies tokens: DefaultJwtValidator or BrokerJwtValidator, which are the same here.
sasl.oauthbearer.scope.claim.name | STRING | scope
    The claim of a token that holds its scopes.
sasl.oauthbearer.sub.claim.name | STRING | sub
    The claim of a token that names its principal.
sasl.server.callback.handler.class | CLASS | -
    How OAUTHBEARER validates tokens, by the name of one of Kafka's two handlers: signed tokens,
    or unsecured ones for tests. Counts only as
    listener.name.<listener>.oauthbearer.sasl.server.callback.handler.class.
sasl.server.max.receive.size | INT | 524288
    The largest request, in bytes, of a client that has not authenticated yet.
socket.listen.backlog.size | INT | 50 | [1,...]
    The maximum length of the queue of pending connections. If not set, tierlog uses 2048.
socket.receive.buffer.bytes | INT | 102400
    The SO_RCVBUF buffer of client sockets; with -1, or if not set, the OS default is used.
socket.request.max.bytes | INT | 104857600 | [1,...]
    The maximum size of a request, in bytes.
socket.send.buffer.bytes | INT | 102400
    The SO_SNDBUF buffer of client sockets; with -1, or if not set, the OS default is used.
ssl.allow.dn.changes | BOOLEAN | false
    Whether a certificate that replaces a listener's may have another subject.
ssl.allow.san.changes | BOOLEAN | false
    Whether such a certificate may lack alternative names of the old one.
ssl.cipher.suites | LIST | ""
    The cipher suites of TLS listeners by Java's names; if empty, OpenSSL's choice.
ssl.client.auth | STRING | none | [required, requested, none]
    Whether clients of a TLS listener need a certificate, may have one, or are not asked for one.
ssl.enabled.protocols | LIST | TLSv1.2,TLSv1.3
    The protocols of TLS listeners; older ones than TLSv1.2 are never used.
ssl.endpoint.identification.algorithm | STRING | https
    Whether nodes check the host name in each other's certificates; if empty, they do not.
ssl.key.password | PASSWORD | -
    The password of the private key, if it is encrypted.
ssl.keystore.certificate.chain | PASSWORD | -
    The certificates of ssl.keystore.key as PEM text, the listener's own first.
ssl.keystore.key | PASSWORD | -
    The private key of TLS listeners as PEM text (PKCS#8).
ssl.keystore.location | STRING | -
    The file with the private key of TLS listeners and its certificates.
ssl.keystore.password | PASSWORD | -
    The password of a key store in PKCS12.
ssl.keystore.type | STRING | JKS
    The format of the key store: PEM, or PKCS12, which JKS stands for too.
ssl.principal.mapping.rules | STRING | DEFAULT
    How the subject of a client's certificate becomes the name of its principal.
ssl.truststore.certificates | PASSWORD | -
    The certificates that vouch for clients of TLS listeners, as PEM text.
ssl.truststore.location | STRING | -
    The file with the certificates that vouch for clients; if not set, the system's.
ssl.truststore.password | PASSWORD | -
    The password of a trust store in PKCS12.
ssl.truststore.type | STRING | JKS
    The format of the trust store: PEM, or PKCS12, which JKS stands for too.
super.users | STRING | ""
    The principals that may do everything, such as User:alice, separated by semicolons.
tierlog.broker.clean.restart | BOOLEAN | false
    Whether a broker that the controller has let stop may register again at once, instead of
    after broker.session.timeout.ms. Applies on controllers. A tierlog property.
tierlog.broker.death.hint | BOOLEAN | false
    Whether a broker is fenced when it sends no heartbeat for 9/8 of broker.heartbeat.interval.ms
    after the connection of its heartbeats was closed. Applies on controllers. A tierlog property.
tierlog.decompressed.batch.max.bytes | INT | 33554432 | [1048576,...]
    The maximum decompressed size of a produced batch that the broker must decompress; at least
    the topic's max.message.bytes. A tierlog property.
tierlog.fetch.pacing.enable | BOOLEAN | true
    Whether the broker spaces out fetch responses to clients that stop fetching when their queue
    is full. A tierlog property.
tierlog.max.partitions | INT | -1 | [-1,...]
    The maximum number of partitions of all topics, enforced when clients create topics or
    partitions; -1 derives it from the limit on open files. A tierlog property.
tierlog.metrics.host | STRING | 127.0.0.1
    The host address of the metrics endpoint. A tierlog property.
tierlog.metrics.port | INT | -1 | [-1,...,65535]
    The port of the Prometheus metrics endpoint; -1 disables it, 0 takes any free port. A
    tierlog property.
tierlog.request.elements.max | INT | 50000 | [100,...]
    The maximum number of array elements in one request; larger requests close the connection. A
    tierlog property.
tierlog.response.max.bytes | INT | 67108864 | [1048576,...]
    The maximum size of a response in bytes, not counting records; instead of sending a larger
    one, the broker closes the connection. A tierlog property.
tierlog.scrub.grace.ms | LONG | 3600000 | [0,...]
    The minimum age of an orphaned object in the tier before it is removed. A tierlog property.
tierlog.scrub.interval.ms | LONG | -1 | [1,...] or -1
    How often the tier is scanned for orphaned objects; -1 disables the scan. A tierlog
    property.
tierlog.status.host | STRING | 127.0.0.1
    The host address of the status page and its API. A tierlog property.
tierlog.status.port | INT | -1 | [-1,...,65535]
    The port of the status page and its API; -1 disables them, 0 takes any free port. The dev
    broker serves them at the port after its own. A tierlog property.
tierlog.tls.handshake.timeout.ms | INT | 10000 | [1,...]
    A client of a TLS listener that has not completed its handshake after this long is
    disconnected. A tierlog property.
tierlog.unfinished.requests.max.bytes | LONG | 104857600 | [1,...]
    The maximum total bytes of unanswered requests on all connections, including partly received
    ones; never below socket.request.max.bytes. A tierlog property.
tierlog.unsent.answers.max.bytes | LONG | 67108864 | [1,...]
    The maximum total bytes of responses, not counting records, that clients have not read yet;
    above it, the connection with the most unsent bytes is closed. A tierlog property.
transaction.abort.timed.out.transaction.cleanup.interval.ms | INT | 10000 | [1,...]
    How often the coordinator checks for transactions that have timed out.
transaction.max.timeout.ms | INT | 900000 | [1,...]
    The maximum transaction timeout that a producer may request.
transaction.partition.verification.enable | BOOLEAN | true
    Whether the broker verifies that a partition was added to the transaction before it accepts
    an older client's transactional batch.
transaction.remove.expired.transaction.cleanup.interval.ms | INT | 3600000 | [1,...]
    How often the coordinator checks for expired transactional IDs.
transaction.state.log.load.buffer.size | INT | 5242880 | [1,...]
    How many bytes of __transaction_state are read at a time when a coordinator loads it.
transaction.state.log.min.isr | INT | 2 | [1,...]
    The min.insync.replicas of __transaction_state.
transaction.state.log.num.partitions | INT | 50 | [1,...]
    The number of partitions of __transaction_state.
transaction.state.log.replication.factor | SHORT | 3 | [1,...]
    The replication factor of __transaction_state, at most the number of brokers.
transaction.state.log.segment.bytes | INT | 104857600 | [1,...]
    The segment.bytes of __transaction_state.
transactional.id.expiration.ms | INT | 604800000 | [1,...]
    How long an unused transactional ID is kept.
unclean.leader.election.enable | BOOLEAN | false
    Whether an out-of-sync replica may become leader when no other can, which may lose records.
"""
