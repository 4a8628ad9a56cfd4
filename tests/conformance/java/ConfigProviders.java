import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

/** What `AbstractConfig` makes of the property `secret` of each properties file on stdin: `secret`, and base64 or "refused". */
public class ConfigProviders {
    public static void main(String[] arguments) throws Exception {
        var definition = new ConfigDef()
            .define("secret", ConfigDef.Type.PASSWORD, ConfigDef.Importance.HIGH, "");
        var lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            var properties = new Properties();
            try (var file = Files.newBufferedReader(Path.of(lines.nextLine()))) {
                properties.load(file);
            }
            Map<String, Object> stated = new HashMap<>();
            properties.forEach((name, value) -> stated.put((String) name, value));
            String answer;
            try {
                // Not the parsed value, from which blanks at its ends are gone.
                var secret = (String) new AbstractConfig(definition, stated, false).originals().get("secret");
                answer = Base64.getEncoder().encodeToString(secret.getBytes(StandardCharsets.UTF_8));
            } catch (ConfigException error) {
                answer = "refused";
            }
            System.out.println("secret " + answer);
        }
    }
}
