# SPDX-License-Identifier: Apache-2.0
# Sourced, not run: installs Chromium by apt where that is possible. Only the tests of the page need it: that it is
# missing is said, and is no failure.

if ! command -v chromium >/dev/null; then
  source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
  if ! penstock_apt chromium; then
    echo "penstock: no Chromium found; the tests of the page will be skipped" >&2
    echo "  mend it: sudo apt-get install chromium" >&2
  fi
fi
