# SPDX-License-Identifier: Apache-2.0
# Run inside the virtual machine by penstock-tests.service: the tests as root, then as a user. user, user_id and tests are
# set above this line. Reports go to the second and third serial line; what pytest says goes to the first.
cd /run/penstock || exit 1
export PYTHONPATH=/run/penstock/src:/run/penstock/packages PYTHONDONTWRITEBYTECODE=1 HOME=/root
pytest="python3 -m pytest -p no:cacheprovider -m cgroups --color=no --confcutdir=tests/integration/cgroups -o faulthandler_timeout=300"

echo "penstock: Linux $(uname -r), controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"
echo "penstock: as root, in $(cut -d: -f3 /proc/self/cgroup)"
$pytest --junitxml=/run/root.xml "${tests[@]}"
cat /run/root.xml > /dev/ttyS1

# As the message for users without rights says: in a scope of their own systemd, which is handed down to them.
systemctl start "user@$user_id.service"
echo "penstock: as $user, in a scope of the user's own systemd"
cd /run/penstock && runuser -u "$user" -- env HOME="/home/$user" XDG_RUNTIME_DIR="/run/user/$user_id" \
  systemd-run --user --scope --quiet -p Delegate=yes $pytest --junitxml="/home/$user/report.xml" "${tests[@]}"
cat "/home/$user/report.xml" > /dev/ttyS2
