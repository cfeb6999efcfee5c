# SPDX-License-Identifier: Apache-2.0
# Run inside the virtual machine by penstock-tests.service: the tests as root, then as a user. user, user_id and tests are
# set above this line. Reports go to the second and third serial line; what pytest says goes to the first.
cd /run/penstock || exit 1
export PYTHONPATH=/run/penstock/src:/run/penstock/packages PYTHONDONTWRITEBYTECODE=1 HOME=/root
# Of pytest's plugins the one alone that the settings need: loading the others takes minutes here.
pytest() {
  "$@" python3 -m pytest -o addopts="-ra --strict-markers --import-mode=importlib --disable-plugin-autoload -p timeout" \
    --confcutdir=tests/integration/cgroups -p no:cacheprovider -m cgroups --color=no "--junitxml=$report" "${tests[@]}"
}

echo "penstock: Linux $(uname -r), controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"
echo "penstock: as root, in $(cut -d: -f3 /proc/self/cgroup)"
report=/run/report.xml pytest env
cat /run/report.xml > /dev/ttyS1

# As the message for users without rights says: in a scope of their own systemd, which is handed down to them.
systemctl start "user@$user_id.service"
echo "penstock: as $user, in a scope of the user's own systemd"
report="/home/$user/report.xml" pytest runuser -u "$user" -- env HOME="/home/$user" XDG_RUNTIME_DIR="/run/user/$user_id" \
  systemd-run --user --scope --quiet -p Delegate=yes
cat "/home/$user/report.xml" > /dev/ttyS2
