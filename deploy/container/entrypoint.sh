#!/bin/bash
# What the image runs: `isthmus` with the arguments given, but for the one word with which Spark starts a pod as an
# executor. Spark then says everything in variables of the environment (docs/operations.md).
set -eu

if [ "${1:-}" != executor ]; then
    exec isthmus "$@"
fi

if [ -z "${SPARK_HOME:-}" ]; then
    SPARK_HOME=$(python -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0])')
fi
options=()
for ((number = 0; ; number++)); do
    option=SPARK_JAVA_OPT_$number
    [ -n "${!option:-}" ] || break
    options+=("${!option}")
done
# Spark's configuration is mounted in a folder of its own; classes that the operator adds come before Spark's.
classes=${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*

exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classes" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
