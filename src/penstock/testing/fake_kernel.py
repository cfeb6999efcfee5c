# SPDX-License-Identifier: Apache-2.0
"""A fake cgroup file system and process table in an ordinary folder, for tests on machines without the real ones."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from penstock.adaptors.cgroups.guard import Kernel

_V1_FILES = {
    "cpu": {
        "cpu.cfs_quota_us": "-1\n",
        "cpu.shares": "1024\n",
        "cpu.cfs_period_us": "100000\n",
        "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
    },
    "cpuacct": {"cpuacct.usage": "0\n"},
}
_V2_STAT = "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"
LAYOUTS = {"v1": ("cpu", "cpuacct"), "v1-together": ("cpu,cpuacct",), "v2": ("",)}


class FakeKernel(Kernel):
    """Behaves as the kernel does where Penstock relies on it: moves, refusals, files that appear with a folder.

    Parameters
    ----------
    folder
        Where the two trees go: ``cgroup`` and ``proc``.
    layout
        ``v1`` (cpu and cpuacct mounted apart), ``v1-together`` or ``v2``.
    """

    def __init__(self, folder: Path, layout: str) -> None:
        self.root = folder / "cgroup"
        self.proc = folder / "proc"
        self.version = 2 if layout == "v2" else 1
        self.mounts = LAYOUTS[layout]
        self.forbidden: set[str] = set()
        """Paths that are not writable, as for a user without rights."""
        self.proc.mkdir(parents=True)
        self.root.mkdir(parents=True)
        for mount in self.mounts:
            point = self.root / mount
            point.mkdir(exist_ok=True)
            self._fill(point, is_root=True)
        self.spawn(os.getpid(), parent=1)
        (self.proc / "self").symlink_to(str(os.getpid()))

    def spawn(self, pid: int, *, parent: int = 1, started: int = 1000, command: str = "sleep 9") -> None:
        """Start a process in its parent's cgroup, like a fork, or in the root."""
        folder = self.proc / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (a (b) c) S {parent} " + "0 " * 17 + f"{started} 0\n")
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
        for mount in self.mounts:
            above = self._where(parent, mount) if (self.proc / str(parent)).exists() else self.root / mount
            self._place(pid, mount, above)

    def end(self, pid: int) -> None:
        """End a process."""
        for mount in self.mounts:
            self._leave(pid, mount)
        shutil.rmtree(self.proc / str(pid))

    def where(self, pid: int) -> str:
        """Return the folder (under the mount) of a process's cpu cgroup."""
        return "/" + str(self._where(pid, self.mounts[0]).relative_to(self.root / self.mounts[0])).strip(".")

    def read(self, path: str) -> str:
        """Read as the kernel would: of threaded groups in v2, the domain around them lists the processes."""
        file = Path(path)
        if self.version == 2 and file.exists() and (file.parent / "cgroup.type").exists():
            if file.name == "cgroup.type":
                return f"{self._type(file.parent)}\n"
            if file.name == "cgroup.procs":
                if self._is_threaded(file.parent):
                    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), path)
                if self._is_thread_root(file.parent):
                    return "".join(procs.read_text() for procs in sorted(file.parent.rglob("cgroup.procs")))
        return super().read(path)

    def write(self, path: str, text: str) -> None:
        """Write as the kernel would, or refuse as it would."""
        if not self.may_write(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        file = Path(path)
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if file.name == "cgroup.procs":
            self._move(int(text), file.parent)
        elif file.name == "cgroup.subtree_control":
            self._hand_down(file.parent, text)
        elif file.name == "cgroup.type":
            self._make_threaded(file.parent)
        elif file.name == "cpu.max":
            quota, period = [*text.split(), *file.read_text().split()[1:]][:2]
            _check_quota("-1" if quota == "max" else quota)
            file.write_text(f"{quota} {period}\n")
        else:
            if file.name == "cpu.cfs_quota_us":
                _check_quota(text)
            file.write_text(f"{text}\n")

    def make(self, folder: str) -> None:
        """Create a group with its control files."""
        if not self.may_write(str(Path(folder).parent)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
        if not Path(folder).is_dir():
            super().make(folder)
            self._fill(Path(folder), is_root=False)

    def remove(self, folder: str) -> None:
        """Remove a group. Refused while it holds processes or groups."""
        path = Path(folder)
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        if (path / "cgroup.procs").read_text().split() or any(entry.is_dir() for entry in path.iterdir()):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), folder)
        shutil.rmtree(path)

    def may_write(self, path: str) -> bool:
        """Whether the path is not forbidden."""
        return path not in self.forbidden

    # --- inside ------------------------------------------------------------------------------------------------

    def _fill(self, folder: Path, *, is_root: bool) -> None:
        (folder / "cgroup.procs").write_text("")
        if self.version == 1:
            for controller in folder.relative_to(self.root).parts[0].split(","):
                for name, text in _V1_FILES[controller].items():
                    (folder / name).write_text(text)
            return
        (folder / "cgroup.threads").write_text("")
        has_cpu = is_root or "cpu" in (folder.parent / "cgroup.subtree_control").read_text().split()
        (folder / "cgroup.controllers").write_text("cpu\n" if has_cpu else "\n")
        (folder / "cgroup.subtree_control").write_text("\n")
        (folder / "cpu.stat").write_text(_V2_STAT)
        if not is_root:
            (folder / "cgroup.type").write_text("domain\n")
            if has_cpu:
                (folder / "cpu.max").write_text("max 100000\n")
                (folder / "cpu.weight").write_text("100\n")

    def _hand_down(self, folder: Path, text: str) -> None:
        if "cpu" not in (folder / "cgroup.controllers").read_text().split():
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        children = [child for child in folder.iterdir() if child.is_dir()]
        handed = set((folder / "cgroup.subtree_control").read_text().split())
        if text == "-cpu":
            if any(_hands_down(child) for child in children):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(folder))
            (folder / "cgroup.subtree_control").write_text(" ".join(sorted(handed - {"cpu"})) + "\n")
            for child in children:
                (child / "cgroup.controllers").write_text("\n")
                (child / "cpu.max").unlink()
                (child / "cpu.weight").unlink()
            return
        if self._holds(folder) and not (self._can_be_thread_root(folder) or self._is_threaded(folder)):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(folder))
        if text != "+cpu" or "cpu" in handed:
            return
        (folder / "cgroup.subtree_control").write_text(" ".join(sorted(handed | {"cpu"})) + "\n")
        for child in children:
            (child / "cgroup.controllers").write_text("cpu\n")
            (child / "cpu.max").write_text("max 100000\n")
            (child / "cpu.weight").write_text("100\n")

    # What follows is as in the kernel's kernel/cgroup/cgroup.c, with functions of the same names.

    def _make_threaded(self, folder: Path) -> None:
        domain = folder.parent
        while self._is_threaded(domain):
            domain = domain.parent
        if self._holds(folder) or not self._can_be_thread_root(domain):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), str(folder))
        (folder / "cgroup.type").write_text("threaded\n")

    def _type(self, folder: Path) -> str:
        if self._is_threaded(folder):
            return "threaded"
        if self._is_thread_root(folder):
            return "domain threaded"
        return "domain" if self._is_valid_domain(folder) else "domain invalid"

    def _is_threaded(self, folder: Path) -> bool:
        return not self._is_root(folder) and (folder / "cgroup.type").read_text().strip() == "threaded"

    def _is_thread_root(self, folder: Path) -> bool:
        if self._is_root(folder) or self._is_threaded(folder):
            return False
        has_threaded = any(self._is_threaded(child) for child in folder.iterdir() if child.is_dir())
        return has_threaded or (self._holds(folder) and bool(_hands_down(folder)))

    def _can_be_thread_root(self, folder: Path) -> bool:
        if self._is_root(folder):
            return True
        children = [child for child in folder.iterdir() if child.is_dir() and not self._is_threaded(child)]
        populated = any(file.read_text().strip() for child in children for file in child.rglob("cgroup.procs"))
        return not (self._is_threaded(folder) or populated or _hands_down(folder) - {"cpu"})

    def _is_valid_domain(self, folder: Path) -> bool:
        parent = folder.parent
        while not self._is_root(folder) and not self._is_root(parent):
            if self._is_thread_root(parent) or self._is_threaded(parent):
                return False
            parent = parent.parent
        return True

    def _is_root(self, folder: Path) -> bool:
        return not (folder / "cgroup.type").exists()

    def _holds(self, folder: Path) -> bool:
        return not self._is_root(folder) and bool((folder / "cgroup.procs").read_text().split())

    def _move(self, pid: int, target: Path) -> None:
        if not (self.proc / str(pid)).exists():
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), str(pid))
        if self.version == 2 and not self._is_threaded(target):
            if not self._is_valid_domain(target):
                raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), str(target))
            if not self._can_be_thread_root(target) and _hands_down(target):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(target))
        mount = target.relative_to(self.root).parts[0] if self.version == 1 else ""
        self._leave(pid, mount)
        self._place(pid, mount, target)

    def _where(self, pid: int, mount: str) -> Path:
        for line in (self.proc / str(pid) / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == mount:
                return self.root / mount / path.lstrip("/")
        raise AssertionError(f"process {pid} is in no cgroup of {mount!r}")

    def _leave(self, pid: int, mount: str) -> None:
        for procs in self._lists(self._where(pid, mount)):
            procs.write_text("".join(f"{word}\n" for word in procs.read_text().split() if word != str(pid)))

    def _lists(self, folder: Path) -> list[Path]:
        """The lists of processes in a folder. Every process has one thread."""
        return [folder / name for name in ("cgroup.procs", "cgroup.threads") if (folder / name).exists()]

    def _place(self, pid: int, mount: str, target: Path) -> None:
        for procs in self._lists(target):
            procs.write_text(f"{procs.read_text()}{pid}\n")
        file = self.proc / str(pid) / "cgroup"
        lines = file.read_text().splitlines() if file.exists() else []
        kept = [line for line in lines if line.split(":", 2)[1] != mount]
        path = "/" + str(target.relative_to(self.root / mount)).removeprefix(".")
        number = 0 if self.version == 2 else self.mounts.index(mount) + 1
        file.write_text("\n".join([*kept, f"{number}:{mount}:{path}"]) + "\n")


def _hands_down(folder: Path) -> set[str]:
    return set((folder / "cgroup.subtree_control").read_text().split())


def _check_quota(text: str) -> None:
    if int(text) != -1 and int(text) < 1000:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), text)
