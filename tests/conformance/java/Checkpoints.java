// Reads small files of a log directory with Kafka's own classes.
//
// "offsets <path>": prints "<topic>-<partition>=<offset>", sorted, of an offset checkpoint.
// "epochs <path>": prints "<epoch>=<start offset>" of a leader-epoch-checkpoint.
// "partition <path>": prints "<version> <topic id>" of a partition.metadata.
// "shutdown <directory>": prints the broker epoch of the clean-shutdown marker, "none" without one.
// "meta <directory>": prints "<cluster id> <node id> <directory id>" of the meta.properties.
// "quorum <path>": prints "<leader epoch> <leader id>" of a quorum-state.
// Fields are separated by tabs, answers' elements by blanks.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.raft.ElectionState;
import org.apache.kafka.raft.FileQuorumStateStore;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadata;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;

public class Checkpoints {
    private static String answer(String what, File file) throws Exception {
        switch (what) {
            case "offsets":
                return new OffsetCheckpointFile(file, null).read().entrySet().stream()
                    .map(Object::toString).sorted().collect(Collectors.joining(" "));
            case "epochs":
                return new LeaderEpochCheckpointFile(file, null).read().stream()
                    .map(entry -> entry.epoch() + "=" + entry.startOffset()).collect(Collectors.joining(" "));
            case "partition": {
                PartitionMetadata found = new PartitionMetadataFile(file, null).read();
                return found.version() + " " + found.topicId();
            }
            case "shutdown": {
                OptionalLong epoch = new CleanShutdownFileHandler(file.getPath()).read();
                return epoch.isPresent() ? String.valueOf(epoch.getAsLong()) : "none";
            }
            case "meta": {
                String path = Path.of(file.getPath(), "meta.properties").toString();
                MetaProperties found =
                    new MetaProperties.Builder(PropertiesUtils.readPropertiesFile(path)).build();
                return found.clusterId().get() + " " + found.nodeId().getAsInt() + " " + found.directoryId().get();
            }
            case "quorum": {
                ElectionState found = new FileQuorumStateStore(file).readElectionState().get();
                return found.epoch() + " " + found.leaderId();
            }
            default:
                throw new IllegalArgumentException(what);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine()) {
            String[] parts = line.split("\t");
            System.out.println(answer(parts[0], new File(parts[1])));
        }
    }
}
