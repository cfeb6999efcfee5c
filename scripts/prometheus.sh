# SPDX-License-Identifier: Apache-2.0
# Sourced, not run: installs Prometheus by apt where that is possible. Only one test needs it: that it is missing is
# said, and is no failure.

if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
  source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
  if ! penstock_apt_without_services prometheus; then
    echo "penstock: no Prometheus found; its test will be skipped" >&2
    echo "  mend it: sudo apt-get install prometheus" >&2
  fi
fi
