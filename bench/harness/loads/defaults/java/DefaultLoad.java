import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own Java client with its default settings.
 *
 * <p>A JVM compiles for the first seconds, so the first third of the records is not in the rate.
 */
public final class DefaultLoad {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long PATIENCE_NS = 60_000_000_000L;

    private final String topic;
    private final String group;
    private final long records;
    private final int recordBytes;
    private final int partitions;
    private final Properties properties = new Properties();
    private final long beganNs = System.nanoTime();

    private DefaultLoad(String[] arguments) {
        properties.put("bootstrap.servers", arguments[1]);
        topic = arguments[2];
        group = arguments[3];
        records = Long.parseLong(arguments[4]);
        recordBytes = Integer.parseInt(arguments[5]);
        partitions = Integer.parseInt(arguments[6]);
    }

    private void produce() {
        byte[] value = new byte[recordBytes];
        for (int index = 0; index < recordBytes; index++) {
            value[index] = (byte) ('a' + index * 7 % 26);
        }
        AtomicLong acknowledged = new AtomicLong();
        AtomicReference<Exception> failure = new AtomicReference<>();
        long warmUp = records / 3;
        long firstNs = 0;
        long startedNs = 0;
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (long number = 0; number < records; number++) {
                producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> {
                    if (error == null) {
                        acknowledged.incrementAndGet();
                    } else {
                        failure.set(error);
                    }
                });
                if (number == 0) {
                    producer.flush();
                    firstNs = System.nanoTime();
                }
                if (number == warmUp - 1) {
                    producer.flush();
                    startedNs = System.nanoTime();
                }
            }
            producer.flush();
            long endedNs = System.nanoTime();
            check(failure.get() == null, "not acknowledged: " + failure.get());
            check(acknowledged.get() == records, acknowledged + " records acknowledged");
            tell(startedNs, endedNs, records - warmUp, firstNs);
        }
    }

    private void consume() {
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        long[] next = new long[partitions];
        long seen = 0;
        long bytes = 0;
        long firstNs = 0;
        long startedNs = 0;
        long startedAt = 0;
        long lastNs = System.nanoTime();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (seen < records) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
                for (ConsumerRecord<byte[], byte[]> each : polled) {
                    check(each.offset() == next[each.partition()]++, "offset " + each.offset());
                    bytes += each.value().length;
                    seen++;
                }
                long nowNs = System.nanoTime();
                check(!polled.isEmpty() || nowNs - lastNs < PATIENCE_NS, "nothing after " + seen);
                lastNs = polled.isEmpty() ? lastNs : nowNs;
                firstNs = firstNs == 0 && seen > 0 ? nowNs : firstNs;
                if (startedNs == 0 && seen >= records / 3) {
                    startedNs = nowNs;
                    startedAt = seen;
                }
            }
            check(seen == records && bytes == records * recordBytes, seen + " records, " + bytes + " bytes");
            tell(startedNs, lastNs, records - startedAt, firstNs);
        }
    }

    private void tell(long startedNs, long endedNs, long timed, long firstNs) {
        check(timed > 0 && endedNs > startedNs, "too few records for a rate");
        System.out.printf(
                java.util.Locale.ROOT,
                "{\"seconds\": %.9f, \"records\": %d, \"first_record_s\": %.9f}%n",
                (endedNs - startedNs) / 1e9, timed, (firstNs - beganNs) / 1e9);
    }

    private static void check(boolean holds, String complaint) {
        if (!holds) {
            throw new IllegalStateException(complaint);
        }
    }

    public static void main(String[] arguments) {
        DefaultLoad load = new DefaultLoad(arguments);
        if (arguments[0].equals("produce")) {
            load.produce();
        } else {
            load.consume();
        }
    }
}
