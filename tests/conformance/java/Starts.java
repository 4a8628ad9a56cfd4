import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/**
 * Starts Kafka's server again and again in one virtual machine, each time on other files.
 *
 * A line is the path of a properties file, and is answered "up" once the server serves; or it is
 * "stop", and is answered "down". A server that refuses its start, or ends by itself, ends the
 * virtual machine, as it does where Kafka's own script runs it.
 */
public final class Starts {
    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        KafkaRaftServer server = null;
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            if (line.equals("stop")) {
                server.shutdown();
                server.awaitShutdown();
                answers.println("down");
            } else {
                try {
                    server = new KafkaRaftServer(KafkaConfig.fromProps(Utils.loadProps(line)), Time.SYSTEM);
                    server.startup();
                } catch (Exception refused) {
                    refused.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
                answers.println("up");
            }
            answers.flush();
        }
    }
}
