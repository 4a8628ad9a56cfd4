// Compiles patterns as Apache Kafka's group coordinator does it and matches topic names against them.
//
// "<pattern as JSON>\t<name>\t<name>...": prints "true" or "false" for each name, or "bad <why>".

import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.StringJoiner;

public class TopicRegex {
    private static String answer(String[] parts, ObjectMapper json) throws Exception {
        try {
            Pattern pattern = Pattern.compile(json.readValue(parts[0], String.class));
            StringJoiner answers = new StringJoiner(" ");
            for (int i = 1; i < parts.length; i++) {
                answers.add(String.valueOf(pattern.matcher(parts[i]).matches()));
            }
            return answers.toString();
        } catch (PatternSyntaxException error) {
            return "bad " + error.getDescription();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        ObjectMapper json = new ObjectMapper();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(line.split("\t", -1), json));
        }
        out.flush();
    }
}
