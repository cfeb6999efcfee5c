# SPDX-License-Identifier: Apache-2.0
# Sourced, not run: installs QEMU and debootstrap by apt where that is possible. Only `make test-cgroup-v2` needs them:
# that they are missing is said, and is no failure.

if ! command -v qemu-system-x86_64 >/dev/null || ! command -v debootstrap >/dev/null; then
  source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
  if ! penstock_apt qemu-system-x86 debootstrap; then
    echo "penstock: no QEMU or no debootstrap found; the tests on a kernel with cgroup v2 will be skipped" >&2
    echo "  mend it: sudo apt-get install qemu-system-x86 debootstrap" >&2
  fi
fi
