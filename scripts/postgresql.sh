# SPDX-License-Identifier: Apache-2.0
# Sourced, not run: installs PostgreSQL by apt where that is possible. Only the tests of its store need the server: that
# it is missing is said, and is no failure.

if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
  source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
  if ! penstock_apt_without_services postgresql; then
    echo "penstock: no PostgreSQL found; the tests of its store will be skipped" >&2
    echo "  mend it: sudo apt-get install postgresql" >&2
  fi
fi
