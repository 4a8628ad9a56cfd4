"""The broker properties of Apache Kafka 4.3.1 that tierlog recognises but does not act on.

A server.properties file for Kafka may contain them. Their types are checked and they are otherwise
ignored, so that such a file does not cause a page of warnings; one line in the log counts and lists
those that are set. The rows have the format of `config_table.py`.
"""

UNUSED_CONFIG_TABLE = """\
alter.config.policy.class.name | CLASS | -
alter.log.dirs.replication.quota.window.num | INT | 11 | [1,...]
alter.log.dirs.replication.quota.window.size.seconds | INT | 1 | [1,...]
background.threads | INT | 10 | [1,...]
client.quota.callback.class | CLASS | -
compression.gzip.level | INT | -1 | [1,...,9] or -1
compression.lz4.level | INT | 9 | [1,...,17]
compression.zstd.level | INT | 3 | [-131072,...,22]
controller.performance.always.log.threshold.ms | LONG | 2000 | [0,...]
controller.performance.sample.period.ms | LONG | 60000 | [100,...]
controller.quorum.append.linger.ms | INT | 25 | [0,...]
controller.quorum.auto.join.enable | BOOLEAN | false
controller.quota.window.num | INT | 11 | [1,...]
controller.quota.window.size.seconds | INT | 1 | [1,...]
cordoned.log.dirs | LIST | ""
create.topic.policy.class.name | CLASS | -
delegation.token.expiry.check.interval.ms | LONG | 3600000 | [1,...]
delegation.token.expiry.time.ms | LONG | 86400000 | [1,...]
delegation.token.max.lifetime.ms | LONG | 604800000 | [1,...]
delegation.token.secret.key | PASSWORD | -
delete.records.purgatory.purge.interval.requests | INT | 1
early.start.listeners | LIST | -
fetch.purgatory.purge.interval.requests | INT | 1000
group.coordinator.append.linger.ms | INT | -1 | [-1,...]
group.coordinator.background.threads | INT | 2 | [1,...]
group.coordinator.cached.buffer.max.bytes | INT | 1048588 | [524288,...]
group.coordinator.threads | INT | 4 | [1,...]
group.share.assignment.interval.ms | INT | 1000 | [0,...]
group.share.assignors | LIST | simple
group.share.delivery.count.limit | INT | 5 | [2,...,10]
group.share.heartbeat.interval.ms | INT | 5000 | [1,...]
group.share.initialize.retry.interval.ms | INT | 30000 | [1,...]
group.share.max.assignment.interval.ms | INT | 15000 | [0,...]
group.share.max.delivery.count.limit | INT | 10 | [5,...,25]
group.share.max.heartbeat.interval.ms | INT | 15000 | [1,...]
group.share.max.partition.max.record.locks | INT | 4000 | [2000,...,10000]
group.share.max.record.lock.duration.ms | INT | 60000 | [30000,...,3600000]
group.share.max.session.timeout.ms | INT | 60000 | [1,...]
group.share.max.share.sessions | INT | 2000 | [1,...]
group.share.max.size | INT | 200 | [1,...,1000]
group.share.min.assignment.interval.ms | INT | 0 | [0,...]
group.share.min.delivery.count.limit | INT | 2 | [2,...,5]
group.share.min.heartbeat.interval.ms | INT | 5000 | [1,...]
group.share.min.partition.max.record.locks | INT | 100 | [100,...,2000]
group.share.min.record.lock.duration.ms | INT | 15000 | [1000,...,30000]
group.share.min.session.timeout.ms | INT | 45000 | [1,...]
group.share.partition.max.record.locks | INT | 2000 | [100,...,10000]
group.share.persister.class.name | STRING | \
org.apache.kafka.server.share.persister.DefaultStatePersister
group.share.record.lock.duration.ms | INT | 30000 | [1000,...,3600000]
group.share.session.timeout.ms | INT | 45000 | [1,...]
group.streams.assignment.interval.ms | INT | 1000 | [0,...]
group.streams.heartbeat.interval.ms | INT | 5000 | [1,...]
group.streams.initial.rebalance.delay.ms | INT | 3000 | [0,...]
group.streams.max.assignment.interval.ms | INT | 15000 | [0,...]
group.streams.max.heartbeat.interval.ms | INT | 15000 | [1,...]
group.streams.max.session.timeout.ms | INT | 60000 | [1,...]
group.streams.max.size | INT | 2147483647 | [1,...]
group.streams.max.standby.replicas | INT | 2 | [0,...]
group.streams.min.assignment.interval.ms | INT | 0 | [0,...]
group.streams.min.heartbeat.interval.ms | INT | 5000 | [1,...]
group.streams.min.session.timeout.ms | INT | 45000 | [1,...]
group.streams.num.standby.replicas | INT | 0 | [0,...]
group.streams.session.timeout.ms | INT | 45000 | [1,...]
internal.metadata.delete.delay.millis | LONG | 60000
internal.metadata.log.segment.bytes | INT | -
internal.metadata.max.batch.size.in.bytes | INT | 8388608
kafka.metrics.polling.interval.secs | INT | 10 | [1,...]
kafka.metrics.reporters | LIST | ""
log.cleaner.threads | INT | 1 | [0,...]
log.dir.failure.timeout.ms | LONG | 30000 | [1,...]
metric.reporters | LIST | org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples | INT | 2 | [1,...]
metrics.recording.level | STRING | INFO
metrics.sample.window.ms | LONG | 30000 | [1,...]
num.io.threads | INT | 8 | [1,...]
num.network.threads | INT | 3 | [1,...]
num.replica.alter.log.dirs.threads | INT | -
principal.builder.class | CLASS | \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
producer.purgatory.purge.interval.requests | INT | 1000
queued.max.requests | INT | 500 | [1,...]
quota.window.num | INT | 11 | [1,...]
quota.window.size.seconds | INT | 1 | [1,...]
remote.log.manager.thread.pool.size | INT | 2 | [1,...]
replica.socket.receive.buffer.bytes | INT | 65536
request.timeout.ms | INT | 30000
sasl.client.callback.handler.class | CLASS | -
sasl.kerberos.kinit.cmd | STRING | /usr/bin/kinit
sasl.kerberos.min.time.before.relogin | LONG | 60000
sasl.kerberos.principal.to.local.rules | LIST | DEFAULT
sasl.kerberos.service.name | STRING | -
sasl.kerberos.ticket.renew.jitter | DOUBLE | 0.05
sasl.kerberos.ticket.renew.window.factor | DOUBLE | 0.8
sasl.login.callback.handler.class | CLASS | -
sasl.login.class | CLASS | -
sasl.login.connect.timeout.ms | INT | -
sasl.login.read.timeout.ms | INT | -
sasl.login.refresh.buffer.seconds | SHORT | 300
sasl.login.refresh.min.period.seconds | SHORT | 60
sasl.login.refresh.window.factor | DOUBLE | 0.8
sasl.login.refresh.window.jitter | DOUBLE | 0.05
sasl.login.retry.backoff.max.ms | LONG | 10000
sasl.login.retry.backoff.ms | LONG | 100
sasl.oauthbearer.assertion.algorithm | STRING | RS256
sasl.oauthbearer.assertion.claim.aud | STRING | -
sasl.oauthbearer.assertion.claim.exp.seconds | INT | 300 | [0,...,86400]
sasl.oauthbearer.assertion.claim.iss | STRING | -
sasl.oauthbearer.assertion.claim.jti.include | BOOLEAN | false
sasl.oauthbearer.assertion.claim.nbf.seconds | INT | 60 | [0,...,3600]
sasl.oauthbearer.assertion.claim.sub | STRING | -
sasl.oauthbearer.assertion.file | STRING | -
sasl.oauthbearer.assertion.private.key.file | STRING | -
sasl.oauthbearer.assertion.private.key.passphrase | PASSWORD | -
sasl.oauthbearer.assertion.template.file | STRING | -
sasl.oauthbearer.client.credentials.client.id | STRING | -
sasl.oauthbearer.client.credentials.client.secret | PASSWORD | -
sasl.oauthbearer.jwt.retriever.class | CLASS | \
org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.scope | STRING | -
sasl.oauthbearer.token.endpoint.url | STRING | -
security.providers | STRING | -
server.max.startup.time.ms | LONG | 9223372036854775807 | [0,...]
share.coordinator.append.linger.ms | INT | -1 | [-1,...]
share.coordinator.cached.buffer.max.bytes | INT | 1048588 | [524288,...]
share.coordinator.cold.partition.snapshot.interval.ms | INT | 300000 | [1,...]
share.coordinator.load.buffer.size | INT | 5242880 | [1,...]
share.coordinator.snapshot.update.records.per.snapshot | INT | 500 | [0,...,500]
share.coordinator.state.topic.compression.codec | INT | 0
share.coordinator.state.topic.prune.interval.ms | INT | 300000 | [1,...]
share.coordinator.threads | INT | 1 | [1,...]
share.coordinator.write.timeout.ms | INT | 5000 | [1,...]
share.fetch.purgatory.purge.interval.requests | INT | 1000
socket.connection.setup.timeout.max.ms | LONG | 30000
socket.connection.setup.timeout.ms | LONG | 10000
ssl.engine.factory.class | CLASS | -
ssl.keymanager.algorithm | STRING | SunX509
ssl.protocol | STRING | TLSv1.3
ssl.provider | STRING | -
ssl.secure.random.implementation | STRING | -
ssl.trustmanager.algorithm | STRING | PKIX
telemetry.max.bytes | INT | 1048576 | [1,...]
transaction.two.phase.commit.enable | BOOLEAN | false
unclean.leader.election.interval.ms | LONG | 300000 | [1,...]
unstable.api.versions.enable | BOOLEAN | false
unstable.feature.versions.enable | BOOLEAN | false
"""
