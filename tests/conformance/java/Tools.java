import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after another in one virtual machine, since starting one takes
 * longer than most of them work.
 *
 * A line asks: class, standard input and arguments, each in Base64, a space between them. The answer
 * is a line: exit code, output and error output in Base64.
 */
public final class Tools {
    private static final class Ended extends RuntimeException {
        private Ended() {
            super(null, null, false, false);
        }
    }

    private static final PrintStream NOWHERE = new PrintStream(OutputStream.nullOutputStream());
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static Integer code;

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] words = Arrays.stream(line.split(" ", -1)).map(Tools::decoded).toArray(String[]::new);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(words[1].getBytes(StandardCharsets.UTF_8)));
            listen(out, err);
            code = null;
            run(words[0], Arrays.copyOfRange(words, 2, words.length));
            // What a tool leaves to the end of its machine: the console producer sends the rest then.
            listen(out, err);
            List.copyOf(HOOKS).forEach(Runnable::run);
            HOOKS.clear();
            answers.println((code == null ? 0 : code) + " " + encoded(out) + " " + encoded(err));
            answers.flush();
        }
    }

    private static void listen(OutputStream out, OutputStream err) {
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
    }

    private static void run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (java.lang.reflect.InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
                end(1);
            }
        } catch (Ended ended) {
            return;
        }
    }

    /** The first exit counts: tools catch what is thrown here, and end a second time. */
    private static void end(int status) {
        if (code == null) {
            code = status;
            System.setOut(NOWHERE);
            System.setErr(NOWHERE);
        }
        throw new Ended();
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
