# SPDX-License-Identifier: Apache-2.0
# Sourced, not run: finds Java 17 or newer and sets JAVA_HOME; installs it by apt where that is possible.
# Spark 4 needs a full Java 17+ runtime (a trimmed one without jdk.incubator.vector does not start it).

penstock_java_major() { "$1" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1; }

penstock_find_java() {
  local java major
  for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java 2>/dev/null)" /usr/lib/jvm/*/bin/java; do
    [ -n "$java" ] && [ -x "$java" ] || continue
    major=$(penstock_java_major "$java")
    if [ -n "$major" ] && [ "$major" -ge 17 ]; then
      JAVA_HOME=$(dirname "$(dirname "$(readlink -f "$java")")")
      export JAVA_HOME
      return 0
    fi
  done
  return 1
}

if ! penstock_find_java; then
  source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
  penstock_apt openjdk-17-jre-headless || true
  if ! penstock_find_java; then
    echo "penstock: Java 17 or newer is needed and was not found." >&2
    echo "  mend it: sudo apt-get install openjdk-17-jre-headless   (or set JAVA_HOME to a Java 17+)" >&2
    return 2 2>/dev/null || exit 2
  fi
fi
