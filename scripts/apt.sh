# SPDX-License-Identifier: Apache-2.0
# Sourced, not run: `penstock_apt PACKAGE...` installs packages, as root and where there is apt. What apt says goes to
# build/apt.log, and its end is shown only when it fails.

penstock_apt() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
  local log=build/apt.log
  mkdir -p build
  echo "penstock: installing $* with apt (what it says: $log)" >&2
  if ! {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
  } </dev/null >>"$log" 2>&1; then
    echo "penstock: apt could not install $*; the end of $log:" >&2
    tail -n 20 "$log" | sed 's/^/  /' >&2
    return 1
  fi
}

# For private servers on ports of their own: the machine's service need not start.
penstock_apt_without_services() (
  policy=/usr/sbin/policy-rc.d
  if [ -w "${policy%/*}" ] && [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod +x "$policy"
  fi
  penstock_apt "$@"
)
