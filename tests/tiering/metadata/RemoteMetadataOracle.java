import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;

/**
 * What Apache Kafka makes of events of the remote log metadata topic. Each line of the input is the
 * hex of a record's value; the answer is: hex of Kafka's own encoding, the partition of 50, and the
 * event as Kafka prints it, separated by tabs.
 */
public class RemoteMetadataOracle {
    public static void main(String[] arguments) throws Exception {
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        RemoteLogMetadataTopicPartitioner partitioner = new RemoteLogMetadataTopicPartitioner(50);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = input.readLine()) != null) {
            RemoteLogMetadata event = serde.deserialize(HexFormat.of().parseHex(line.trim()));
            System.out.println(HexFormat.of().formatHex(serde.serialize(event)) + "\t"
                + partitioner.metadataPartition(event.topicIdPartition()) + "\t" + event);
        }
    }
}
