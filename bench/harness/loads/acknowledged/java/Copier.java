// Copies one topic to another exactly once, with Kafka's own clients, until it is killed.
//
//   java -cp ... Copier <bootstrap> <source> <target> <group and transactional id> <records>
//
// Each round reads at most so many records, writes them to the same partitions, and commits the
// positions in one transaction. A transaction that failed is begun anew from the committed positions;
// a fatal error ends the process, and whoever runs it starts another.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Copier {
    public static void main(String[] arguments) {
        String name = arguments[3];
        Map<String, Object> reading = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", name,
            "session.timeout.ms", 10000,
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false,
            "isolation.level", "read_committed",
            "max.poll.records", Integer.parseInt(arguments[4])));
        Map<String, Object> writing = Map.of(
            "bootstrap.servers", arguments[0],
            "transactional.id", name,
            "request.timeout.ms", 10000,
            "transaction.timeout.ms", 60000);
        try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(arguments[1]));
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    copy(consumer, producer, records, arguments[2]);
                    System.out.println("committed " + records.count());
                } catch (OutOfOrderSequenceException | AuthorizationException | UnsupportedVersionException
                        | ApplicationRecoverableException error) {
                    throw error;
                } catch (KafkaException error) {
                    System.out.println("aborted " + error);
                    producer.abortTransaction();
                    for (TopicPartition each : consumer.assignment()) {
                        OffsetAndMetadata committed = consumer.committed(java.util.Set.of(each)).get(each);
                        consumer.seek(each, committed == null ? 0 : committed.offset());
                    }
                }
            }
        }
    }

    private static void copy(
            KafkaConsumer<byte[], byte[]> consumer,
            KafkaProducer<byte[], byte[]> producer,
            ConsumerRecords<byte[], byte[]> records,
            String target) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(target, record.partition(), record.key(), record.value()));
            offsets.put(
                new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
    }
}
