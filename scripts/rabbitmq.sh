# SPDX-License-Identifier: Apache-2.0
# Sourced, not run: installs rabbitmq-server by apt where that is possible. Only tests and `penstock` users of a
# private RabbitMQ need it: that it is missing is said, and is no failure.

if [ ! -x /usr/lib/rabbitmq/bin/rabbitmq-server ] && ! command -v rabbitmq-server >/dev/null; then
  source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
  if ! penstock_apt_without_services rabbitmq-server; then
    echo "penstock: no RabbitMQ found; its tests will be skipped" >&2
    echo "  mend it: sudo apt-get install rabbitmq-server" >&2
  fi
fi
