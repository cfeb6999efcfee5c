# SPDX-License-Identifier: Apache-2.0
"""The keeper: a process that holds a small Kubernetes node in namespaces of its own, and leaves nothing behind.

It runs by path, with the standard library alone (`python -I -S keeper.py <folder>`), and reads ``node.json`` in the
folder (`node_plan` writes it). It consists of three processes:

- The *node* is the first process of a new PID namespace, in mount, network, IPC and cgroup namespaces of its own. It
  starts the servers and starts them again when they end. When it dies, the kernel ends all that runs inside.
- The *keeper* is its parent. When it is killed, the kernel kills the node. It ends by itself when its owner does.
- The *cleaner* waits for the end of the keeper, however that comes about. Then it ends what is left in the node's
  control groups, and removes these and the folder.

Mounts and networks of a namespace are gone with its last process. So only control groups and the folder have to be
removed. If the cleaner was killed, too, a later start finds them: the groups have the keeper's identity in their names.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PLAN_FILE, READY_FILE = "node.json", "ready.json"
GROUP_PREFIX = "penstock-kubernetes-"
"""Of the control groups' names; the keeper's identity follows, with underscores (`process.identity`)."""
LOG_FOLDER = "log"
HOLD_FOLDER = "hold"
"""A server whose name is a file in this folder is not started again when it ends."""
CGROUP_ROOT = Path("/sys/fs/cgroup")

# linux/sched.h, linux/mount.h, linux/prctl.h, linux/sockios.h
_CLONE_NEWNS, _CLONE_NEWCGROUP, _CLONE_NEWIPC, _CLONE_NEWPID, _CLONE_NEWNET = (
    0x00020000, 0x02000000, 0x08000000, 0x20000000, 0x40000000,
)  # fmt: skip
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_SHARED = 0x1000, 0x4000, 0x40000, 0x100000
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCBRADDBR = 0x8914, 0x8916, 0x891C, 0x89A0
_IFF_UP, _IFF_RUNNING = 0x0001, 0x0040
_CLEAN_SECONDS = 30.0
_AGAIN_SECONDS = 1.0
_ROTATE_EVERY_SECONDS = 60.0
_PROCESSES_PER_CORE = 4
_BRIDGE = "k8s0"

_libc = ctypes.CDLL(None, use_errno=True)


def own_groups(name: str, own: str | None = None, root: Path = CGROUP_ROOT) -> dict[str, Path]:
    """Return the folders of a control group below that of this process, by the hierarchy's mount name.

    With version 1 of control groups there is one for each controller; with version 2 there is one, named "".
    """
    text = Path("/proc/self/cgroup").read_text() if own is None else own
    found: dict[str, Path] = {}
    is_v2 = (root / "cgroup.controllers").exists()
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if (number == "0") is not is_v2:
            continue  # beside version 1, an empty hierarchy of version 2 may be mounted: nothing is held there
        mount = controllers.removeprefix("name=")
        found[mount] = root / mount / path.lstrip("/") / name
    return found


def remove_groups(groups: Sequence[Path], within_seconds: float = _CLEAN_SECONDS) -> list[Path]:
    """Kill whatever runs in these groups, and remove them with all groups below. Return those that are left."""
    deadline = time.monotonic() + within_seconds
    while True:
        left = [group for group in groups if group.exists()]
        for group in left:
            for folder, _, _ in os.walk(group, topdown=False):
                _kill_members(Path(folder))
                with contextlib.suppress(OSError):  # its processes have not ended yet
                    Path(folder).rmdir()
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _kill_members(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def count_for_more(groups: Sequence[Path], cores: int) -> None:
    """Have a node count as four processes for each core where other programs want the CPU, too.

    By default a group counts as one process, whatever runs in it: on a busy machine all pods and servers together would
    get next to nothing.
    """
    for file, one, most in (("cpu.shares", 1024, 262144), ("cpu.weight", 100, 10000)):
        for group in groups:
            if (group / file).exists():
                (group / file).write_text(str(min(most, one * _PROCESSES_PER_CORE * cores)))


def keep(folder: Path) -> int:
    """Hold the node of a folder until a signal comes, its owner ends, or it ends itself."""
    plan = json.loads((folder / PLAN_FILE).read_text())
    rotate_logs = log_rotation()
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    groups = own_groups(f"{GROUP_PREFIX}{os.getpid()}_{started}_{plan['place'].replace(':', '_')}")
    wake, write_end = os.pipe()
    for end in (wake, write_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    cleaners_pipe = _start_cleaner(folder, list(groups.values()))
    owner = None if plan["owner"] is None else os.pidfd_open(plan["owner"])
    _make_groups(groups)
    count_for_more(list(groups.values()), os.cpu_count() or 1)
    go_read, go_write = os.pipe()
    _check(_libc.unshare(_CLONE_NEWPID), "a PID namespace cannot be made")
    node = os.fork()
    if node == 0:
        os.close(go_write)
        os.close(cleaners_pipe)
        _be_the_node(folder, plan, go_read)
    for group in groups.values():
        (group / "cgroup.procs").write_text(str(node))
    os.close(go_read)
    os.write(go_write, str(node).encode())
    os.close(go_write)
    while True:
        ready, _, _ = select.select([wake, *([] if owner is None else [owner])], [], [], _ROTATE_EVERY_SECONDS)
        rotate_logs([folder, folder / LOG_FOLDER])
        if owner in ready:
            break
        numbers = os.read(wake, 4096) if wake in ready else b""
        if any(number != signal.SIGCHLD for number in numbers):
            break
        if numbers and os.waitpid(node, os.WNOHANG)[0] == node:
            print("the node has ended by itself", file=sys.stderr, flush=True)
            return 1
    os.kill(node, signal.SIGKILL)
    os.waitpid(node, 0)
    return 0


def log_rotation() -> Callable[[Sequence[Path]], list[str]]:
    """Return `rotate_logs` of the package, which this program does not see: its file needs no other one of it."""
    file = Path(__file__).parents[1] / "process" / "log_rotation.py"
    found = importlib.util.spec_from_file_location("log_rotation", file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    rotate: Callable[[Sequence[Path]], list[str]] = module.rotate_logs
    return rotate


def _start_cleaner(folder: Path, groups: list[Path]) -> int:
    """Fork the process that removes everything when the pipe that is returned is closed: when this one has ended."""
    read_end, write_end = os.pipe()
    if os.fork() != 0:
        os.close(read_end)
        return write_end
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.close(write_end)
    os.read(read_end, 1)
    for group in remove_groups(groups):
        print(f"the control group {group} cannot be removed", file=sys.stderr, flush=True)
    # Last, for whoever waits for the end waits for this.
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _make_groups(groups: dict[str, Path]) -> None:
    for mount, group in groups.items():
        group.mkdir()
        if mount == "cpuset":  # of version 1: empty until they are set, and then nothing can run there
            for file in ("cpuset.cpus", "cpuset.mems"):
                (group / file).write_text((group.parent / file).read_text())


# --- inside ----------------------------------------------------------------------------------------------------


def _be_the_node(folder: Path, plan: dict[str, Any], go: int) -> None:
    """Be the first process of the PID namespace; never returns."""
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        pid = os.read(go, 32).decode()
        if not pid:  # the keeper has died
            os._exit(1)
        flags = _CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWCGROUP
        _check(_libc.unshare(flags), "namespaces cannot be made")
        _mount_all(folder, plan)
        _bring_up_network(plan["address"], plan["service_address"])
        _write(folder / READY_FILE, {"pid": int(pid)})
        _serve(folder, plan)
    except OSError as fault:
        _write(folder / READY_FILE, {"fault": str(fault)})
    finally:
        os._exit(1)


def _mount_all(folder: Path, plan: dict[str, Any]) -> None:
    # First private, so that nothing gets out; then shared, so that what the kubelet mounts gets into the containers.
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    _mount("none", "/", "", _MS_REC | _MS_SHARED)
    _mount("proc", "/proc", "proc")
    for name, value in plan["sysctls"].items():  # the kubelet would set them for the whole machine
        there = Path("/proc/sys") / name
        if there.exists():
            fake = folder / "sysctls" / name.replace("/", ".")
            fake.parent.mkdir(exist_ok=True)
            fake.write_text(f"{value}\n")
            _mount(str(fake), str(there), "", _MS_BIND)
    # Away with the machine's own control groups: containerd would find their mounts first.
    _check(_libc.umount2(b"/sys", _MNT_DETACH), "/sys cannot be unmounted")
    _mount("sysfs", "/sys", "sysfs")
    _mount_groups(plan["hierarchies"])
    upper, work = folder / "var", folder / "var-work"
    upper.mkdir()
    work.mkdir()
    _mount("var", "/var", "overlay", data=f"lowerdir=/var,upperdir={upper},workdir={work}")
    _mount("run", "/run", "tmpfs", data="mode=755")
    Path("/run/lock").mkdir()


def _mount_groups(hierarchies: list[str]) -> None:
    """Show the node its own control group as the root of all."""
    if hierarchies == [""]:
        _mount("cgroup", str(CGROUP_ROOT), "cgroup2")
        # In version 2 a group with groups below it may hold no process itself.
        (CGROUP_ROOT / "node").mkdir()
        (CGROUP_ROOT / "node" / "cgroup.procs").write_text("1")
        controllers = (CGROUP_ROOT / "cgroup.controllers").read_text().split()
        (CGROUP_ROOT / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
        return
    _mount("cgroup", str(CGROUP_ROOT), "tmpfs", data="mode=755")
    for mount in hierarchies:
        place = CGROUP_ROOT / mount
        place.mkdir()
        is_named = mount == "systemd"
        _mount("cgroup", str(place), "cgroup", data="none,name=systemd" if is_named else mount)


def _bring_up_network(address: str, service_address: str) -> None:
    """Give the node its addresses: that of its bridge, and that of the service by which pods find the API."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCBRADDBR, _BRIDGE.encode() + b"\0")
        _set_address(control, _BRIDGE, address, "255.255.255.0")
        _set_address(control, f"{_BRIDGE}:1", service_address, "255.255.255.255")
        for device in ("lo", _BRIDGE):
            flags = struct.pack("h", _IFF_UP | _IFF_RUNNING)
            fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16s24s", device.encode(), flags))


def _set_address(control: socket.socket, device: str, address: str, mask: str) -> None:
    for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, mask)):
        packed = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
        fcntl.ioctl(control, request, struct.pack("16s24s", device.encode(), packed))


def _serve(folder: Path, plan: dict[str, Any]) -> None:
    """Start the servers, start those again that end, and take in the orphans of the namespace, for ever."""
    for name in (LOG_FOLDER, HOLD_FOLDER):
        (folder / name).mkdir(exist_ok=True)
    environment = {"PATH": f"{plan['programs']}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}", "HOME": "/"}
    running: dict[int, str] = {}
    due = dict.fromkeys(plan["servers"], 0.0)
    while True:
        for name in [name for name, at in due.items() if at <= time.monotonic()]:
            if (folder / HOLD_FOLDER / name).exists():
                continue
            running[_start(plan["servers"][name]["argv"], folder, name, environment)] = name
            del due[name]
        while running or not due:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended = running.pop(pid, None)
            is_over = ended is not None and plan["servers"][ended]["once"] and status == 0
            if ended is not None and not is_over:
                due[ended] = time.monotonic() + _AGAIN_SECONDS
        time.sleep(0.1)


def _start(argv: list[str], folder: Path, name: str, environment: dict[str, str]) -> int:
    with (folder / LOG_FOLDER / f"{name}.log").open("ab") as log:
        # Not waited for here but by `_serve`, which takes in every process of the namespace.
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True
        )
    process.returncode = 0  # or Popen would say at its end that nobody has waited
    return process.pid


def _mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _check(result, f"{target} cannot be mounted")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _write(path: Path, answer: dict[str, Any]) -> None:
    """Write the answer in one step: a reader sees all of it or nothing."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(answer))
    draft.rename(path)


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1])))
