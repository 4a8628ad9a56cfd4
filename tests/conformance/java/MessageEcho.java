// Reads lines of "<message> <version> <hex>", where a message is named as in Kafka's JSON definitions.
// Decodes each with Kafka's own generated class and prints what that class encodes it to, and what it
// understood: "<hex>\t<json>". A message that Kafka cannot read gives "error\t<why>".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class MessageEcho {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
    };

    private static Class<?> dataClass(String name) throws ClassNotFoundException {
        boolean isRpc = name.endsWith("Request") || name.endsWith("Response");
        for (String candidate : PACKAGES) {
            try {
                return Class.forName(candidate + name + (isRpc ? "Data" : ""));
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static String echo(String name, short version, byte[] encoded) throws Exception {
        Class<?> type = dataClass(name);
        Message message = (Message) type.getConstructor().newInstance();
        ByteBuffer input = ByteBuffer.wrap(encoded);
        message.read(new ByteBufferAccessor(input), version);
        if (input.hasRemaining()) {
            return "error\t" + input.remaining() + " bytes left over";
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(output), cache, version);
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        Method write = converter.getMethod("write", type, short.class, boolean.class);
        return HexFormat.of().formatHex(output.array()) + "\t" + write.invoke(null, message, version, false);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            try {
                out.println(echo(parts[0], Short.parseShort(parts[1]), HexFormat.of().parseHex(parts[2])));
            } catch (InvocationTargetException error) {
                out.println("error\t" + error.getCause());
            } catch (RuntimeException error) {
                out.println("error\t" + error);
            }
        }
        out.flush();
    }
}
