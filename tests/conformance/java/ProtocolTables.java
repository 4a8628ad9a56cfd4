// Prints what Kafka's own tables say: "api <key> <lowest> <highest> <first flexible>" for what brokers
// and controllers announce by default, "key <key> <name>" for all API keys, "error <code> <name> <is retriable>".

import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

public class ProtocolTables {
    public static void main(String[] arguments) {
        for (ApiKeys key : ApiKeys.values()) {
            System.out.println("key " + key.id + " " + key.name());
        }
        for (ApiMessageType.ListenerType listener : ApiMessageType.ListenerType.values()) {
            for (ApiKeys key : ApiKeys.apisForListener(listener)) {
                ApiVersionsResponseData.ApiVersion range =
                    key.toApiVersionForApiResponse(false, listener).orElse(null);
                if (range == null) {
                    continue;
                }
                // Below the first version that is served the generated classes say nothing true.
                short flexible = range.minVersion();
                while (flexible <= range.maxVersion() && key.requestHeaderVersion(flexible) < 2) {
                    flexible++;
                }
                System.out.println(
                    "api " + key.id + " " + range.minVersion() + " " + range.maxVersion() + " " + flexible);
            }
        }
        for (Errors error : Errors.values()) {
            boolean isRetriable = error.exception() instanceof RetriableException;
            System.out.println("error " + error.code() + " " + error.name() + " " + isRetriable);
        }
    }
}
