// Reads record batches with Kafka's own record classes, and writes what it read anew.
//
// One line in: batches as hex. One line out: JSON with "batches", each with its header fields, its
// records and "rebuilt", the hex of MemoryRecordsBuilder's batch of the same; or with "refused".

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Utils;

public class RecordBatches {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private static String hex(ByteBuffer buffer) {
        return buffer == null ? null : HEX.formatHex(Utils.toArray(buffer));
    }

    private static void describe(Record record, ObjectNode into) {
        into.put("offset", record.offset());
        into.put("timestamp", record.timestamp());
        into.put("key", hex(record.key()));
        into.put("value", hex(record.value()));
        ArrayNode headers = into.putArray("headers");
        for (Header header : record.headers()) {
            byte[] value = header.value();
            headers.addArray().add(header.key()).add(value == null ? null : HEX.formatHex(value));
        }
    }

    private static ObjectNode describe(MutableRecordBatch batch) throws IOException {
        batch.ensureValid();
        ObjectNode told = JSON.createObjectNode();
        told.put("base_offset", batch.baseOffset());
        told.put("last_offset", batch.lastOffset());
        told.put("partition_leader_epoch", batch.partitionLeaderEpoch());
        told.put("compression", batch.compressionType().id);
        told.put("timestamp_type", batch.timestampType().id);
        told.put("max_timestamp", batch.maxTimestamp());
        told.put("producer_id", batch.producerId());
        told.put("producer_epoch", batch.producerEpoch());
        told.put("base_sequence", batch.baseSequence());
        told.put("last_sequence", batch.lastSequence());
        told.put("is_transactional", batch.isTransactional());
        told.put("is_control", batch.isControlBatch());
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            ByteBuffer.allocate(1 << 20), batch.magic(), Compression.of(batch.compressionType()).build(),
            batch.timestampType(), batch.baseOffset(), batch.maxTimestamp(), batch.producerId(),
            batch.producerEpoch(), batch.baseSequence(), batch.isTransactional(), batch.isControlBatch(),
            batch.partitionLeaderEpoch(), 1 << 20);
        ArrayNode records = told.putArray("records");
        for (Record record : batch) {
            describe(record, records.addObject());
            builder.appendUncheckedWithOffset(record.offset(), new SimpleRecord(record));
        }
        told.put("rebuilt", hex(builder.build().buffer()));
        return told;
    }

    private static String answer(String line) throws IOException {
        ObjectNode told = JSON.createObjectNode();
        try {
            ArrayNode batches = JSON.createArrayNode();
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(line))).batches())
                batches.add(describe(batch));
            told.set("batches", batches);
        } catch (RuntimeException refused) {
            told.put("refused", refused.toString());
        }
        return told.toString();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(answer(line));
        out.flush();
    }
}
