// Writes and reads records of __transaction_state with Kafka's own coordinator classes.
//
// "write <transactional id> <producer id> <previous> <next> <epoch> <timeout> <state> <topic:partition,...>
// <start> <last update> <client's version> <transaction.version>": prints "<key hex> <value hex>".
// "read <key hex> <value hex>": prints the same fields as Kafka understands them.
// Fields are separated by tabs.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.TransactionVersion;

public class TransactionRecords {
    private static String written(String[] parts) {
        HashSet<TopicPartition> partitions = new HashSet<>();
        for (String each : parts[8].split(",")) {
            if (!each.isEmpty()) {
                int colon = each.lastIndexOf(':');
                partitions.add(new TopicPartition(each.substring(0, colon), Integer.parseInt(each.substring(colon + 1))));
            }
        }
        TxnTransitMetadata transit = new TxnTransitMetadata(
            Long.parseLong(parts[2]), Long.parseLong(parts[3]), Long.parseLong(parts[4]), Short.parseShort(parts[5]),
            (short) -1, Integer.parseInt(parts[6]), TransactionState.fromName(parts[7]).orElseThrow(), partitions,
            Long.parseLong(parts[9]), Long.parseLong(parts[10]),
            TransactionVersion.fromFeatureLevel(Short.parseShort(parts[11])));
        HexFormat hex = HexFormat.of();
        byte[] value = TransactionLog.valueToBytes(transit, TransactionVersion.fromFeatureLevel(Short.parseShort(parts[12])));
        return hex.formatHex(TransactionLog.keyToBytes(parts[1])) + "\t" + hex.formatHex(value);
    }

    private static String understood(String key, String value) throws Exception {
        HexFormat hex = HexFormat.of();
        TransactionLog.ReadResult result = TransactionLog.read(
            ByteBuffer.wrap(hex.parseHex(key)), value.isEmpty() ? null : ByteBuffer.wrap(hex.parseHex(value)));
        if (!(result instanceof TransactionLog.TxnRecord found)) {
            return result.toString();
        }
        TransactionMetadata read = found.metadata();
        TreeSet<String> partitions = new TreeSet<>();
        read.topicPartitions().forEach(each -> partitions.add(each.topic() + ":" + each.partition()));
        return String.join("\t", read.transactionalId(), "" + read.producerId(), "" + read.prevProducerId(),
            field(read, "nextProducerId"), "" + read.producerEpoch(), "" + read.txnTimeoutMs(), read.state().stateName(),
            String.join(",", partitions), "" + read.txnStartTimestamp(), "" + read.txnLastUpdateTimestamp(),
            "" + read.clientTransactionVersion().featureLevel());
    }

    // There is no way to ask for it.
    private static String field(TransactionMetadata read, String name) {
        return read.toString().replaceFirst(".*[( ]" + name + "=(-?[0-9]+).*", "$1");
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            out.println(parts[0].equals("write") ? written(parts) : understood(parts[1], parts[2]));
        }
        out.flush();
    }
}
