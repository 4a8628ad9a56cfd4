// One member of a consumer group, made with Kafka's own Java consumer, as a process that a test can
// watch, steer and kill.
//
//   java -cp ... Member <topic, or a pattern that begins with ^> <property>=<value>...
//
// It prints one JSON line for each thing that happens to it, with the time it happened: partitions
// assigned and revoked, records read, positions committed. It does what it is told on its standard
// input, a line each: "seek 7" (in every partition it owns), "pause", "resume". SIGTERM makes it
// leave the group in an orderly way, once what it has read is committed.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(200);
    private static volatile boolean stopped = false;

    private static synchronized void say(String event, Collection<String> partitions, long offset) {
        Instant now = Instant.now();
        long at = TimeUnit.SECONDS.toNanos(now.getEpochSecond()) + now.getNano();
        String names =
                partitions.stream().sorted().map(name -> '"' + name + '"').collect(Collectors.joining(", "));
        String told = event.replace("\\", "/").replace("\"", "'").replace("\n", " ");
        System.out.printf(
                "{\"at\": %d, \"event\": \"%s\", \"partitions\": [%s], \"offset\": %d}%n", at, told, names, offset);
        System.out.flush();
    }

    private static void sayMoved(String event, Collection<TopicPartition> partitions) {
        say(event, partitions.stream().map(TopicPartition::toString).toList(), -1);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        sayMoved("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        sayMoved("revoked", partitions);
    }

    private static void obey(KafkaConsumer<byte[], byte[]> consumer, String line) {
        String[] words = line.split(" ");
        switch (words[0]) {
            case "seek" -> consumer.assignment().forEach(each -> consumer.seek(each, Long.parseLong(words[1])));
            case "pause" -> consumer.pause(consumer.assignment());
            case "resume" -> consumer.resume(consumer.paused());
            default -> throw new IllegalArgumentException(line);
        }
        say(words[0], List.of(), -1);
    }

    /** Whether the positions are committed; the coordinator may be away. */
    private static boolean commit(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            consumer.commitSync(Duration.ofSeconds(5));
            say("committed", List.of(), -1);
            return true;
        } catch (KafkaException error) {
            say("not committed: " + error, List.of(), -1);
            return false;
        }
    }

    private static void consume(KafkaConsumer<byte[], byte[]> consumer, ConcurrentLinkedQueue<String> told) {
        boolean committed = true;
        while (!stopped || !committed) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            for (ConsumerRecord<byte[], byte[]> each : records) {
                say("read", List.of(each.topic() + "-" + each.partition()), each.offset());
            }
            if (!records.isEmpty() || !committed) {
                committed = commit(consumer);
            }
            for (String line = told.poll(); line != null; line = told.poll()) {
                obey(consumer, line);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        for (int number = 1; number < arguments.length; number++) {
            String[] parts = arguments[number].split("=", 2);
            properties.setProperty(parts[0], parts[1]);
        }
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        CountDownLatch left = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopped = true;
            try {
                left.await(30, TimeUnit.SECONDS);
            } catch (InterruptedException impatient) {
                Thread.currentThread().interrupt();
            }
        }));
        ConcurrentLinkedQueue<String> told = new ConcurrentLinkedQueue<>();
        Thread listening = new Thread(() -> new BufferedReader(new InputStreamReader(System.in)).lines().forEach(told::add));
        listening.setDaemon(true);
        listening.start();
        String topic = arguments[0];
        if (topic.startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(topic), new Member());
        } else {
            consumer.subscribe(List.of(topic), new Member());
        }
        try {
            consume(consumer, told);
            consumer.close();
            say("left", List.of(), -1);
        } finally {
            left.countDown();
        }
    }
}
