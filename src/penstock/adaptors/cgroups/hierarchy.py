# SPDX-License-Identifier: Apache-2.0
"""Finds where on this machine CPU quotas can be set: cgroup v1 or v2, and under which parent.

v1
    The group goes into the caller's own cgroup, so that an administrator's cap there still holds. It goes into the
    hierarchy of the ``cpu`` controller and, if ``cpuacct`` is mounted separately, into that one too.
v2
    The group goes into the cgroup of the processes that it holds, as a threaded one, so that all limits there still
    hold; where the kernel refuses that, beside it (`places`). A controller that was enabled for Penstock above that
    cgroup stays enabled, because nobody knows afterwards who else relies on it.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

from penstock.adaptors.cgroups.guard import FOLDER, GroupFolders, Kernel
from penstock.adaptors.cgroups.mounts import Mount, home_of, mount_at, v1_mounts
from penstock.adaptors.cgroups.places import hand_cpu_down, is_root, is_threaded_place, places_for
from penstock.errors import ActuationError

ROOT = "/sys/fs/cgroup"


class CgroupsUnavailableError(ActuationError):
    """CPU shares cannot be set here. `reason` is one line: what is missing and the command that fixes it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, target="cgroups")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where CPU quotas can be set. Created by `find_hierarchy`."""

    version: int
    mounts: tuple[Mount, ...]
    """The one with the quota first, then a second one if v1 counts CPU time separately."""
    bases: tuple[str, ...]
    """For each mount, the folder in which to create the ``penstock`` folder for processes in the caller's cgroup."""
    homes: tuple[str, ...]
    """For each mount, the caller's own cgroup. It can always hold processes."""
    proc: str = "/proc"
    kernel: Kernel = field(default_factory=Kernel, compare=False)

    def group(self, name: str, bases: tuple[str, ...] = ()) -> GroupFolders:
        """Return the folders of the group with this name, in `bases` or the usual ones. They need not exist."""
        bases = bases or self.bases
        return GroupFolders(
            self.version,
            [f"{base}/{FOLDER}/{name}" for base in bases],
            [self.holders(base, home) for base, home in zip(bases, self.homes, strict=True)],
            proc=self.proc,
            kernel=self.kernel,
        )

    def holders(self, base: str, home: str) -> list[str]:
        """Return where processes of a group in `base` can go if nobody knows where they came from, the best first."""
        if self.version == 1 or is_root(base):
            return [home, base]
        return [base, home] if is_threaded_place(base, self.kernel) else [home]

    def make(self, group: GroupFolders) -> None:
        """Create the folders of a group. If that fails, nothing is left of them."""
        try:
            for folder in group.folders:
                self._make_patiently(folder)
        except BaseException:
            group.remove()
            raise

    def make_for(self, name: str, origin: list[str]) -> GroupFolders:
        """Create and weigh a group for processes of these cgroups, in the best place that the kernel allows.

        Raises
        ------
        CgroupsUnavailableError
            There is none. Nothing was left behind.
        """
        refusal = CgroupsUnavailableError(
            f"cgroups: no permission to create groups for processes of {origin[0]}; {_mend_rights(self.version)}"
        )
        for bases in self._bases_for(origin):
            group = self.group(name, bases)
            try:
                self.make(group)
                self.weigh(group)
            except CgroupsUnavailableError as fault:
                group.remove()
                refusal = fault
            else:
                return group
        raise refusal

    def has_group(self, name: str) -> bool:
        """Whether there is a group of this name for processes of the caller's own cgroup."""
        groups = (self.group(name, bases) for bases in self._bases_for(list(self.homes)))
        return any(Path(folder).exists() for group in groups for folder in group.folders)

    def weigh(self, group: GroupFolders) -> None:
        """Let a group count as a process on every core.

        A new group counts as one process, whatever it holds: on a busy machine all executors of all operators together
        would get what one other process gets, and stay far below their caps. A weight takes nothing from an idle one.
        """
        cores = os.cpu_count() or 1
        name, weight = ("cpu.shares", 1024 * cores) if self.version == 1 else ("cpu.weight", min(10_000, 100 * cores))
        folder = group.folders[0]
        for heavy in (str(Path(folder).parent), folder):
            try:
                self.kernel.write(f"{heavy}/{name}", str(weight))
            except OSError as fault:
                raise CgroupsUnavailableError(
                    f"cgroups: the weight of {heavy} cannot be set ({fault.strerror}); {_mend_rights(self.version)}"
                ) from fault

    def origin_of(self, pid: int) -> list[str] | None:
        """Return the folders of a process's cgroups, or None if it is gone."""
        folders = [mount.folder_of(self.proc, pid) for mount in self.mounts]
        if all(folder is None for folder in folders) and not Path(self.proc, str(pid)).exists():
            return None
        return [folder or home for folder, home in zip(folders, self.homes, strict=True)]

    def _bases_for(self, origin: list[str]) -> list[tuple[str, ...]]:
        """Where groups for processes of these cgroups may be made, the best first."""
        if self.version == 1:
            return [self.bases]
        return [(place,) for place in places_for(origin[0], self.mounts[0].point, self.kernel)]

    def _make_patiently(self, folder: str) -> None:
        for _ in range(10):
            try:
                self._make(folder)
            except FileNotFoundError:
                continue  # another run has just removed the empty folder around it
            return
        raise CgroupsUnavailableError(
            f"cgroups: {folder} cannot be created: its parent folder vanishes; "
            f"see what else runs there: ls {Path(folder).parent.parent}"
        )

    def _make(self, folder: str) -> None:
        around = str(Path(folder).parent)
        base = str(Path(around).parent)
        is_threaded = self.version == 2 and is_threaded_place(base, self.kernel)
        try:
            for part, above in ((around, base), (folder, around)):
                self.kernel.make(part)
                # Threaded first: only then may one that holds processes hand the controller down.
                if is_threaded and self.kernel.read(f"{part}/cgroup.type").strip() != "threaded":
                    self.kernel.write(f"{part}/cgroup.type", "threaded")
                if self.version == 2:
                    hand_cpu_down(above, self.mounts[0].point, self.kernel)
        except FileNotFoundError:
            raise
        except OSError as fault:
            if self.version == 2 and fault.errno in (errno.EBUSY, errno.EOPNOTSUPP):
                mend = (
                    f"{base} holds processes, and so do groups in it; move them: mkdir -p {base}/inside && for p in "
                    f"$(cat {base}/cgroup.procs); do echo $p > {base}/inside/cgroup.procs; done"
                )
            else:
                mend = _mend_rights(self.version)
            raise CgroupsUnavailableError(f"cgroups: {folder} cannot be created ({fault.strerror}); {mend}") from fault


def find_hierarchy(
    root: str = ROOT, *, proc: str = "/proc", pid: int | str = "self", kernel: Kernel | None = None
) -> Hierarchy:
    """Find where CPU quotas can be set for processes of this machine.

    Parameters
    ----------
    root
        Where the cgroup file systems are mounted.
    proc
        Where the process file system is mounted.
    pid
        The process for which groups are created: by default this one.

    Raises
    ------
    CgroupsUnavailableError
        In one line: what is missing, and the command that fixes it.
    """
    kernel = kernel or Kernel()
    if Path(root, "cgroup.controllers").is_file():
        return _find_v2(mount_at(root, frozenset(), proc), proc, pid, kernel)
    by_controller = v1_mounts(root, proc)
    if "cpu" in by_controller:
        return _find_v1(by_controller, proc, pid, kernel)
    unified = Path(root, "unified")
    if (unified / "cgroup.controllers").is_file() and "cpu" in (unified / "cgroup.controllers").read_text().split():
        return _find_v2(mount_at(str(unified), frozenset(), proc), proc, pid, kernel)
    raise CgroupsUnavailableError(
        f"cgroups: no hierarchy with the cpu controller under {root}; mount one: "
        f"sudo mkdir -p {root}/cpu,cpuacct && sudo mount -t cgroup -o cpu,cpuacct cgroup {root}/cpu,cpuacct"
    )


def _find_v1(mounts: dict[str, Mount], proc: str, pid: int | str, kernel: Kernel) -> Hierarchy:
    cpu = mounts["cpu"]
    if not Path(cpu.point, "cpu.cfs_quota_us").exists():
        raise CgroupsUnavailableError(
            f"cgroups: {cpu.point} has no cpu.cfs_quota_us: this kernel was built without CPU quotas; "
            "boot one with CONFIG_CFS_BANDWIDTH=y (check: grep CONFIG_CFS_BANDWIDTH /boot/config-$(uname -r))"
        )
    counting = mounts.get("cpuacct")
    if counting is None:
        folder = str(Path(cpu.point).parent / "cpuacct")
        raise CgroupsUnavailableError(
            "cgroups: the cpuacct controller, which counts CPU time, is not mounted; mount it: "
            f"sudo mkdir -p {folder} && sudo mount -t cgroup -o cpuacct cgroup {folder}"
        )
    used = (cpu,) if counting == cpu else (cpu, counting)
    homes = tuple(home_of(mount, proc, pid) for mount in used)
    for home in homes:
        _require_rights(home, 1, kernel)
    return Hierarchy(1, used, homes, homes, proc, kernel)


def _find_v2(mount: Mount, proc: str, pid: int | str, kernel: Kernel) -> Hierarchy:
    home = home_of(mount, proc, pid)
    top = mount.point
    places = places_for(home, top, kernel)
    if places:
        return Hierarchy(2, (mount,), (places[0],), (home,), proc, kernel)
    if "cpu" not in kernel.read(f"{top}/cgroup.controllers").split():
        raise CgroupsUnavailableError(
            f"cgroups: the cpu controller is not enabled in {top}; enable it in the parent cgroup, or, "
            "if v1 uses it, boot with: systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=cpu"
        )
    _require_rights(home, 2, kernel)
    raise CgroupsUnavailableError(
        f"cgroups: the cpu controller does not reach {home}, and those above cannot be changed from here; "
        f"{_mend_rights(2)}"
    )


def _require_rights(folder: str, version: int, kernel: Kernel) -> None:
    if kernel.may_write(folder) and kernel.may_write(f"{folder}/cgroup.procs"):
        return
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise CgroupsUnavailableError(
            f"cgroups: {folder} is mounted read-only; make it writable: sudo mount -o remount,rw {folder} "
            "(in a container: start it with --privileged)"
        )
    raise CgroupsUnavailableError(f"cgroups: no permission to create groups in {folder}; {_mend_rights(version)}")


def _mend_rights(version: int) -> str:
    as_root = "run as root: sudo -E env PATH=$PATH <your command>"
    if version == 1:
        return as_root
    return f"run in your own scope: systemd-run --user --scope -p Delegate=yes <your command>, or {as_root}"
