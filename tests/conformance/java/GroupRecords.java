// Writes and reads records of __consumer_offsets with Kafka's own coordinator classes.
//
// "group <record as JSON of GroupMetadataValue, version 3> <group>", "offset <JSON> <version> <group>
// <topic> <partition>": prints "<key hex> <value hex>" as Kafka's serde writes them.
// "record <name> <key as JSON> <value as JSON, or nothing>": the same for the record whose schemas are
// called <name>Key and <name>Value.
// "read <key hex> <value hex>": prints what Kafka's serde understands, as "<key> <value>".
// "partition <group> <count>": prints the partition that Kafka's coordinator takes for the group.
// Fields are separated by tabs.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValueJsonConverter;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValueJsonConverter;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class GroupRecords {
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    private static final String PACKAGE = "org.apache.kafka.coordinator.group.generated.";
    private static final ObjectMapper JSON = new ObjectMapper();

    private static String written(CoordinatorRecord record) {
        HexFormat hex = HexFormat.of();
        return hex.formatHex(SERDE.serializeKey(record)) + "\t" + hex.formatHex(SERDE.serializeValue(record));
    }

    private static ApiMessage parsed(String schema, String text) throws Exception {
        return (ApiMessage) Class.forName(PACKAGE + schema + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class)
            .invoke(null, JSON.readTree(text), (short) 0);
    }

    private static String record(String name, String key, String value) throws Exception {
        ApiMessage keyMessage = parsed(name + "Key", key);
        if (value.isEmpty()) {
            byte[] written = SERDE.serializeKey(CoordinatorRecord.tombstone(keyMessage));
            return HexFormat.of().formatHex(written) + "\t";
        }
        return written(CoordinatorRecord.record(
            keyMessage, new ApiMessageAndVersion(parsed(name + "Value", value), (short) 0)));
    }

    private static String answer(String[] parts) throws Exception {
        HexFormat hex = HexFormat.of();
        switch (parts[0]) {
            case "group": {
                short version = 3;
                return written(CoordinatorRecord.record(
                    new GroupMetadataKey().setGroup(parts[2]),
                    new ApiMessageAndVersion(
                        GroupMetadataValueJsonConverter.read(JSON.readTree(parts[1]), version), version)));
            }
            case "offset": {
                short version = Short.parseShort(parts[2]);
                return written(CoordinatorRecord.record(
                    new OffsetCommitKey()
                        .setGroup(parts[3]).setTopic(parts[4]).setPartition(Integer.parseInt(parts[5])),
                    new ApiMessageAndVersion(
                        OffsetCommitValueJsonConverter.read(JSON.readTree(parts[1]), version), version)));
            }
            case "record":
                return record(parts[1], parts[2], parts[3]);
            case "read": {
                CoordinatorRecord record = SERDE.deserialize(
                    ByteBuffer.wrap(hex.parseHex(parts[1])),
                    parts[2].isEmpty() ? null : ByteBuffer.wrap(hex.parseHex(parts[2])));
                return record.key() + "\t" + (record.value() == null ? "null" : record.value().message());
            }
            case "partition":
                return String.valueOf(Utils.abs(parts[1].hashCode()) % Integer.parseInt(parts[2]));
            default:
                throw new IllegalArgumentException(parts[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
        out.flush();
    }
}
