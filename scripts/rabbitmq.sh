# SPDX-License-Identifier: Apache-2.0
# Sourced, not run: installs rabbitmq-server by apt where that is possible. Only tests and `penstock` users of a
# private RabbitMQ need it, so that its absence is told and is no failure.

if [ ! -x /usr/lib/rabbitmq/bin/rabbitmq-server ] && ! command -v rabbitmq-server >/dev/null; then
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "penstock: no RabbitMQ found; installing rabbitmq-server with apt" >&2
    (
      # Installed for private servers on ports of their own: the machine's service need not start.
      policy=/usr/sbin/policy-rc.d
      if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod +x "$policy"
      fi
      apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends rabbitmq-server
    ) >&2 || echo "penstock: rabbitmq-server could not be installed; its tests will be skipped" >&2
  else
    echo "penstock: no RabbitMQ found; its tests will be skipped" >&2
    echo "  mend it: sudo apt-get install rabbitmq-server" >&2
  fi
fi
