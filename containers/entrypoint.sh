#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a pod of Spark on Kubernetes is started with: `driver ARGUMENTS...`, or `executor` and variables that Spark has
# set. Anything else is run as it is, such as `penstock doctor` or `spark-submit ...`.
set -euo pipefail

spark_home=${SPARK_HOME:?set it to the folder of Spark}
java=${JAVA_HOME:+$JAVA_HOME/bin/}java

case "${1:-}" in
  driver)
    shift
    exec "$spark_home/bin/spark-submit" \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --deploy-mode client "$@"
    ;;
  executor)
    # Spark numbers the options: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...
    options=()
    for ((i = 0; ; i++)); do
      name=SPARK_JAVA_OPT_$i
      [ -n "${!name+x}" ] || break
      options+=("${!name}")
    done
    exec "$java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:-$spark_home/conf}:$spark_home/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" \
      --executor-id "$SPARK_EXECUTOR_ID" \
      --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec "$@"
    ;;
esac
