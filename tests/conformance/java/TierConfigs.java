import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManagerConfig;
import org.apache.kafka.server.log.remote.storage.RemoteLogManagerConfig;

/**
 * The settings of Kafka's tiering, one a line: whose it is, name, type, default, rule, and whether a
 * running broker can change it, separated by tabs.
 */
public class TierConfigs {
    public static void main(String[] arguments) throws Exception {
        print("broker", RemoteLogManagerConfig.configDef());
        var config = TopicBasedRemoteLogMetadataManagerConfig.class.getDeclaredField("CONFIG");
        config.setAccessible(true);
        print("metadata", (ConfigDef) config.get(null));
    }

    private static void print(String owner, ConfigDef definitions) {
        var dynamic = org.apache.kafka.server.config.DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS;
        for (var key : new TreeMap<>(definitions.configKeys()).values()) {
            System.out.println(String.join("\t", owner, key.name, key.type.name(),
                String.valueOf(key.defaultValue), String.valueOf(key.validator),
                String.valueOf(dynamic.contains(key.name))));
        }
    }
}
