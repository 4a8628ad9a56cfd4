// The MBeans of Kafka in a JVM of this machine. On standard input: the JVM's process id. Prints
// "<name><tab><attribute>" for every attribute of each, sorted.

import com.sun.tools.attach.VirtualMachine;
import java.util.Scanner;
import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

public class MBeanNames {
    public static void main(String[] arguments) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(new Scanner(System.in).nextLine().trim());
        String address = machine.startLocalManagementAgent();
        machine.detach();
        try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            var server = connector.getMBeanServerConnection();
            var lines = new TreeSet<String>();
            for (ObjectName name : server.queryNames(new ObjectName("*kafka*:*"), null)) {
                for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
                    lines.add(name + "\t" + attribute.getName());
                }
            }
            lines.forEach(System.out::println);
        }
    }
}
