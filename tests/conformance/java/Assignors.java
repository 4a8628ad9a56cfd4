// Runs Kafka's own server-side assignors on groups given as JSON, one a line, and prints what they give out.
//
// {"assignor": "uniform", "sizes": {"<topic id>": 4}, "members": [{"id": "m", "instance": null, "topics":
// ["<topic id>"], "target": {"<topic id>": [0, 1]}}]} gives {"m": {"<topic id>": [0, 1]}}. Members are
// handed over in the order in which they are listed, topics in the order of their ids.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    private record Sizes(Map<Uuid, Integer> partitions) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topicId) {
            return partitions.getOrDefault(topicId, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topicId, int partition) {
            throw new UnsupportedOperationException("an assignor looks at racks");
        }
    }

    private static Map<Uuid, Set<Integer>> target(JsonNode node) {
        Map<Uuid, Set<Integer>> target = new TreeMap<>();
        node.fields().forEachRemaining(topic -> {
            Set<Integer> partitions = new TreeSet<>();
            topic.getValue().forEach(partition -> partitions.add(partition.asInt()));
            target.put(Uuid.fromString(topic.getKey()), partitions);
        });
        return Collections.unmodifiableMap(target);
    }

    private static String answer(JsonNode group) throws Exception {
        Map<Uuid, Integer> sizes = new HashMap<>();
        group.get("sizes").fields().forEachRemaining(
            topic -> sizes.put(Uuid.fromString(topic.getKey()), topic.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode member : group.get("members")) {
            String id = member.get("id").asText();
            Set<Uuid> topics = new TreeSet<>();
            member.get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
            subscriptions.add(topics);
            Map<Uuid, Set<Integer>> target = target(member.get("target"));
            target.forEach((topic, partitions) -> partitions.forEach(
                partition -> owners.computeIfAbsent(topic, any -> new HashMap<>()).put(partition, id)));
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.of("rack"), Optional.ofNullable(member.get("instance").textValue()), topics,
                new Assignment(target)));
        }
        SubscriptionType type =
            subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        ConsumerGroupPartitionAssignor assignor =
            group.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupAssignment assigned = assignor.assign(new GroupSpecImpl(members, type, owners), new Sizes(sizes));
        Map<String, Map<String, Set<Integer>>> answer = new TreeMap<>();
        assigned.members().forEach((id, assignment) -> {
            Map<String, Set<Integer>> topics = new TreeMap<>();
            assignment.partitions().forEach(
                (topic, partitions) -> topics.put(topic.toString(), new TreeSet<>(partitions)));
            answer.put(id, topics);
        });
        return JSON.writeValueAsString(answer);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(JSON.readTree(line)));
        }
        out.flush();
    }
}
