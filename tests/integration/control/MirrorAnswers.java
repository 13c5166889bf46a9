import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Asks Kafka's own MirrorClient: `PROPERTY=VALUE ... -- QUESTION ...`; each answer is a line. */
public final class MirrorAnswers {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        int at = 0;
        for (; !arguments[at].equals("--"); at++) {
            String[] parts = arguments[at].split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        try (MirrorClient client = new MirrorClient(properties)) {
            for (at++; at < arguments.length; at++) {
                System.out.println(answer(client, properties, arguments[at].split(" ")));
            }
        }
    }

    private static String answer(MirrorClient client, Map<String, Object> properties, String[] question)
            throws Exception {
        switch (question[0]) {
            case "upstreamClusters":
                return sorted(client.upstreamClusters());
            case "replicationHops":
                return String.valueOf(client.replicationHops(question[1]));
            case "heartbeatTopics":
                return sorted(client.heartbeatTopics());
            case "checkpointTopics":
                return sorted(client.checkpointTopics());
            case "remoteTopics":
                return sorted(question.length == 1 ? client.remoteTopics() : client.remoteTopics(question[1]));
            case "translateOffsets":
                Map<String, String> found = new TreeMap<>();
                RemoteClusterUtils.translateOffsets(properties, question[1], question[2], TIMEOUT)
                    .forEach((key, value) -> found.put(key.toString(), value.offset() + ":" + value.metadata()));
                return sorted(found.entrySet().stream().map(each -> each.getKey() + ":" + each.getValue()).toList());
            default:
                throw new IllegalArgumentException(question[0]);
        }
    }

    private static String sorted(Collection<String> names) {
        return String.join(" ", new TreeSet<>(names));
    }
}
