import java.util.List;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConnector;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;

/** The names of all settings that MirrorMaker 2's connectors define, with their defaults: `CONNECTOR NAME=DEFAULT`. */
public final class ConfigNames {
    public static void main(String[] arguments) {
        List<Connector> connectors =
            List.of(new MirrorSourceConnector(), new MirrorCheckpointConnector(), new MirrorHeartbeatConnector());
        for (Connector connector : connectors) {
            for (ConfigDef.ConfigKey key : connector.config().configKeys().values()) {
                String value = key.hasDefault() && key.defaultValue != null
                    ? ConfigDef.convertToString(key.defaultValue, key.type)
                    : "";
                System.out.println(connector.getClass().getSimpleName() + " " + key.name + "=" + value);
            }
        }
    }
}
