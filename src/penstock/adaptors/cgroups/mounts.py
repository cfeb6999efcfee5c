# SPDX-License-Identifier: Apache-2.0
"""Where cgroup file systems are mounted, and in which of their folders a process is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted hierarchy."""

    controllers: frozenset[str]
    """Its v1 controllers; empty for v2, which has one hierarchy for all."""
    point: str
    shows: str = "/"
    """The cgroup at the mount point. A container often sees only part of the tree."""

    def folder_of(self, proc: str, pid: int | str) -> str | None:
        """Return the folder of a process's cgroup, or None if the process is gone or outside this mount."""
        try:
            lines = Path(proc, str(pid), "cgroup").read_text(encoding="utf-8").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return None
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if self.controllers <= set(controllers.split(",")) if self.controllers else controllers == "":
                relative = os.path.relpath(path.removesuffix(" (deleted)"), self.shows)
                if ".." in PurePosixPath(relative).parts:
                    return None
                return str(Path(self.point, relative))
        return None


def home_of(mount: Mount, proc: str, pid: int | str) -> str:
    """Return the caller's own cgroup, or the mount point if its own is not visible."""
    folder = mount.folder_of(proc, pid)
    return folder if folder is not None and Path(folder).is_dir() else mount.point


def v1_mounts(root: str, proc: str) -> dict[str, Mount]:
    """Return the v1 hierarchies under `root` by controller. A name such as ``cpu,cpuacct`` stands for two."""
    found: dict[str, Mount] = {}
    for folder in sorted(Path(root).iterdir()) if Path(root).is_dir() else []:
        controllers = frozenset(folder.name.split(",")) & {"cpu", "cpuacct"}
        # Links such as cpu -> cpu,cpuacct lead to a mount that is also found under its own name.
        if controllers and folder.is_dir() and not folder.is_symlink():
            mount = mount_at(str(folder), controllers, proc)
            found.update(dict.fromkeys(controllers, mount))
    return found


def mount_at(point: str, controllers: frozenset[str], proc: str) -> Mount:
    """Return the hierarchy that is mounted there, with the cgroup that it shows."""
    try:
        lines = Path(proc, "self", "mountinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        fields = line.split()
        if len(fields) > 4 and fields[4] == point:
            return Mount(controllers, point, fields[3])
    return Mount(controllers, point)
