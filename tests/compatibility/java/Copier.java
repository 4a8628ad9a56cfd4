// Copies one topic to another, exactly once, with Kafka's own Java clients, until it is killed.
//
//   java -cp ... Copier <bootstrap> <source> <target> <group and transactional id> <records>
//
// Each round reads some records, writes them and commits the positions in one transaction. It prints
// a line for each commit. What it cannot go on after ends it; whoever runs it starts another.

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
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Copier {
    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        String name = arguments[3];
        Map<String, Object> reading = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", name,
            "group.instance.id", name,
            "session.timeout.ms", 6000,
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false,
            "isolation.level", "read_committed",
            "max.poll.records", Integer.parseInt(arguments[4])));
        Map<String, Object> writing = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap,
            "transactional.id", name,
            "transaction.timeout.ms", 10000));
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
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    producer.send(new ProducerRecord<>(arguments[2], record.partition(), record.key(), record.value()));
                    offsets.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                System.out.println(records.count());
            }
        }
    }
}
