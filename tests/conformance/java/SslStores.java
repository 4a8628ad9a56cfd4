import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.network.ConnectionMode;
import org.apache.kafka.common.security.ssl.SslFactory;

/**
 * Whether Kafka's `SslFactory` makes a server of each properties file on stdin: `stores accepted` or
 * `stores refused`. The property `between.brokers` says whether it shakes hands with itself.
 */
public class SslStores {
    public static void main(String[] arguments) throws Exception {
        var definition = new ConfigDef().withClientSslSupport();
        var lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            var properties = new Properties();
            try (var file = Files.newBufferedReader(Path.of(lines.nextLine()))) {
                properties.load(file);
            }
            Map<String, String> stated = new HashMap<>();
            properties.forEach((name, value) -> stated.put((String) name, (String) value));
            var isVerified = Boolean.parseBoolean(stated.remove("between.brokers"));
            String answer = "accepted";
            try (var factory = new SslFactory(ConnectionMode.SERVER, null, isVerified)) {
                factory.configure(definition.parse(stated));
            } catch (KafkaException error) {
                answer = "refused";
            }
            System.out.println("stores " + answer);
        }
    }
}
