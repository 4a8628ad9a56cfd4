// Kafka's own Java producer, idempotent, at a steady rate until its standard input ends.
//
//   java -cp ... SteadyProducer <bootstrap> <topic> <partitions> <records a second> <bytes>
//
// The values of each partition are its numbers 0, 1, 2, … and filler. One line for each answer:
// "a <partition> <number> <offset> <nanoseconds since 1970>" or "f <partition> <number> <error>".

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class SteadyProducer {
    private static final PrintStream OUT = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false);

    private static byte[] value(long number, int size) {
        byte[] value = new byte[size];
        Arrays.fill(value, (byte) '.');
        byte[] digits = (number + " ").getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(digits, 0, value, 0, digits.length);
        return value;
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int rate = Integer.parseInt(arguments[3]);
        int size = Integer.parseInt(arguments[4]);
        AtomicBoolean ends = new AtomicBoolean();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (IOException error) {
                System.err.println(error);
            }
            ends.set(true);
        });
        input.setDaemon(true);
        input.start();
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "acks", "all",
            "enable.idempotence", true,
            "delivery.timeout.ms", 900000,
            "max.block.ms", 900000,
            "request.timeout.ms", 10000);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            long began = System.nanoTime();
            for (long sent = 0; !ends.get(); sent++) {
                int partition = (int) (sent % partitions);
                long number = sent / partitions;
                producer.send(new ProducerRecord<>(topic, partition, null, value(number, size)), (metadata, error) -> {
                    if (error == null) {
                        OUT.println("a " + partition + " " + number + " " + metadata.offset() + " "
                            + System.currentTimeMillis() * 1_000_000);
                    } else {
                        OUT.println("f " + partition + " " + number + " " + error.toString().replace('\n', ' '));
                    }
                });
                long ahead = began + sent * 1_000_000_000L / rate - System.nanoTime();
                if (ahead > 1_000_000) {
                    OUT.flush();
                    Thread.sleep(ahead / 1_000_000);
                } else if (ahead < -1_000_000_000L) {
                    began -= ahead;  // it was blocked: go on at the rate, and do not catch up
                }
            }
            producer.flush();
        }
        OUT.flush();
    }
}
