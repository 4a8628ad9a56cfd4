// Reads lines of "<name>=<value>;<name>=<value>…", the properties of a node, and prints for each what
// Kafka's own configuration makes of it: "ok", or "error " and the sentence.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import kafka.server.KafkaConfig;

public class NodeConfigs {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Properties properties = new Properties();
            for (String each : line.split(";")) {
                int end = each.indexOf('=');
                properties.put(each.substring(0, end), each.substring(end + 1));
            }
            try {
                KafkaConfig.fromProps(properties, false);
                System.out.println("ok");
            } catch (RuntimeException error) {
                System.out.println("error " + error.getMessage());
            }
        }
    }
}
