// Kafka's own Java clients as a program that works off orders (orders.py), a line of JSON each.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class SecurityClient {
    private final JsonNode order;
    private final int patienceMs;

    SecurityClient(JsonNode order) {
        this.order = order;
        this.patienceMs = 1000 * order.get("patience_s").asInt();
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer;
            try {
                answer = Map.of("values", new SecurityClient(json.readTree(line)).work());
            } catch (Exception error) {
                answer = Map.of("error", shown(error));
            }
            System.out.println(json.writeValueAsString(answer));
        }
    }

    // The error and its causes, as a stack trace shows them.
    static String shown(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (!(each instanceof ExecutionException)) {
                text.append(text.isEmpty() ? "" : "\ncaused by ").append(each);
            }
        }
        return text.toString();
    }

    private String text(String name) {
        return order.get(name).asText();
    }

    private Map<String, Object> settings() {
        Map<String, Object> stated = new HashMap<>(Map.of(
            "bootstrap.servers", text("address"),
            "security.protocol", text("protocol"),
            "max.block.ms", patienceMs));
        if (!text("token").isEmpty()) {
            String url = Path.of(text("token")).toUri().toString();
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
            String oauth = "org.apache.kafka.common.security.oauthbearer.";
            stated.put("sasl.mechanism", text("mechanism"));
            stated.put("sasl.jaas.config", oauth + "OAuthBearerLoginModule required;");
            stated.put("sasl.login.callback.handler.class", oauth + "OAuthBearerLoginCallbackHandler");
            stated.put("sasl.oauthbearer.token.endpoint.url", url);
        } else if (!text("mechanism").isEmpty()) {
            String module = text("mechanism").equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            stated.put("sasl.mechanism", text("mechanism"));
            stated.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";",
                module, text("user"), text("password")));
        }
        if (!text("ca").isEmpty()) {
            stated.put("ssl.truststore.type", "PEM");
            stated.put("ssl.truststore.location", text("ca"));
        }
        if (!text("identity").isEmpty()) {
            stated.put("ssl.keystore.type", "PEM");
            stated.put("ssl.keystore.location", text("identity"));
        }
        return stated;
    }

    private List<String> work() throws Exception {
        String what = text("what");
        boolean isAll = what.equals("work");
        int records = Math.max(1, order.get("records").asInt());
        if (isAll || what.equals("produce")) {
            produce(records);
        }
        if (isAll || what.equals("transact")) {
            transact(records);
        }
        return isAll || what.equals("consume") ? consume(isAll ? 2 * records : 1) : List.of();
    }

    private KafkaProducer<String, String> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private void send(KafkaProducer<String, String> producer, String word, int records) throws Exception {
        for (int number = 0; number < records; number++) {
            producer.send(new ProducerRecord<>(text("topic"), word + " " + number)).get();
        }
    }

    private void produce(int records) throws Exception {
        KafkaProducer<String, String> producer = producer(settings());
        try {
            send(producer, "plain", records);
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    private void transact(int records) throws Exception {
        Map<String, Object> settings = settings();
        settings.put("transactional.id", text("transactional_id"));
        KafkaProducer<String, String> producer = producer(settings);
        try {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, "aborted", 1);
            producer.abortTransaction();
            producer.beginTransaction();
            send(producer, "committed", records);
            producer.commitTransaction();
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    private List<String> consume(int count) {
        Map<String, Object> settings = settings();
        settings.put("group.id", text("group"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + patienceMs * 1_000_000L;
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(text("topic")));
            while (values.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return values;
    }
}
